// Package report is how verify, restore and drill tell their result: the three
// verdict words, what they mean for an exit code, and one rendering for people
// and one for programs. It judges nothing itself and imports no command's
// package, so that a word means the same wherever it is printed.
//
// A command makes one [Printer], gives it a [Batch] as each is finished, and
// ends with [Printer.Close], which prints the summary and returns it. A
// scheduler that wants to know later reads [WriteMetrics] and [AppendHistory].
package report
