// Package restore puts the rows of a verified batch back into a wallet_outbox
// and proves that they are there as they were archived.
//
// Rows come only from a [verify.Verified]. A batch is one transaction: what the
// target's definition would change is found before anything is written, what is
// there already is compared and never overwritten, what was written is read back
// by key, and only when every row of the batch was found in the target with its
// archived value is the transaction committed. A warning of the server is an
// error here.
//
// Nothing decides for the operator: a target that refuses or differs is
// [ErrConflict] with its evidence, and the target is as it was. Start with
// [Batch].
package restore
