import Foundation

// Top-level code runs on the main actor, and a closure in it would trap on any other thread. The following line must
// therefore stay the only statement in this file.
Tool.run(Array(CommandLine.arguments.dropFirst())).end()
