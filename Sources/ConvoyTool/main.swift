import Foundation

// Top-level code belongs to the main actor, and a closure written here would trap on any other thread. So this is the
// only statement in this file.
Tool.run(Array(CommandLine.arguments.dropFirst())).end()
