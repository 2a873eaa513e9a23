import Foundation
import SwiftOperators
import SwiftParser
import SwiftSyntax

/// Finds the mutants of a file in its syntax tree.
final class MutantFinder: SyntaxVisitor {
    private let file: String
    private let source: [UInt8]
    private let locations: SourceLocationConverter
    private(set) var mutants: [Mutant] = []

    private static let opposites: [String: [(change: String, text: String)]] = [
        "<": [("boundary", "<="), ("negation", ">=")], "<=": [("boundary", "<"), ("negation", ">")],
        ">": [("boundary", ">="), ("negation", "<=")], ">=": [("boundary", ">"), ("negation", "<")],
        "==": [("negation", "!=")], "!=": [("negation", "==")], "===": [("negation", "!==")], "!==": [("negation", "===")],
        "&&": [("connective", "||")], "||": [("connective", "&&")], "+": [("arithmetic", "-")], "-": [("arithmetic", "+")],
        "&+": [("arithmetic", "&-")], "&-": [("arithmetic", "&+")],
    ]
    /// Calls that end the program, only check something or save memory, or are required by the compiler.
    private static let keptCalls: Set<String> = [
        "fatalError", "preconditionFailure", "assertionFailure", "assert", "exit", "withExtendedLifetime", "super.init",
        "self.init", "reserveCapacity",
    ]

    static func mutants(of text: String, file: String) -> [Mutant] {
        let parsed = Parser.parse(source: text)
        let folded = OperatorTable.standardOperators.foldAll(parsed) { _ in }
        let finder = MutantFinder(file: file, text: text, tree: folded)
        finder.walk(folded)
        return finder.mutants
    }

    private init(file: String, text: String, tree: Syntax) {
        self.file = file
        source = Array(text.utf8)
        locations = SourceLocationConverter(fileName: file, tree: tree)
        super.init(viewMode: .sourceAccurate)
    }

    // MARK: What is left alone

    override func visit(_ node: AttributeSyntax) -> SyntaxVisitorContinueKind { .skipChildren }
    override func visit(_ node: ImportDeclSyntax) -> SyntaxVisitorContinueKind { .skipChildren }
    override func visit(_ node: EnumCaseDeclSyntax) -> SyntaxVisitorContinueKind { .skipChildren }
    override func visit(_ node: MacroExpansionExprSyntax) -> SyntaxVisitorContinueKind { .skipChildren }
    override func visit(_ node: AvailabilityConditionSyntax) -> SyntaxVisitorContinueKind { .skipChildren }

    /// Only the first clause of `#if os(Linux)` is compiled here.
    override func visit(_ node: IfConfigDeclSyntax) -> SyntaxVisitorContinueKind {
        if let clause = node.clauses.first, clause.condition?.trimmedDescription == "os(Linux)" { walk(clause) }
        return .skipChildren
    }

    // MARK: Expressions

    override func visit(_ node: InfixOperatorExprSyntax) -> SyntaxVisitorContinueKind {
        guard let binary = node.operator.as(BinaryOperatorExprSyntax.self) else { return .visitChildren }
        let text = binary.operator.text
        for (change, other) in Self.opposites[text] ?? [] where !joinsText(node) {
            add(node, change, replacing(binary, in: node, by: other))
        }
        if text == "??" {
            add(node, "default dropped", "(\(node.leftOperand.trimmedDescription))!")
            add(node, "default always", node.rightOperand.trimmedDescription)
        }
        if text == "+=" || text == "-=", node.parent?.is(CodeBlockItemSyntax.self) == true,
            !node.rightOperand.is(StringLiteralExprSyntax.self), !node.rightOperand.is(ArrayExprSyntax.self)
        {
            add(node, "arithmetic", replacing(binary, in: node, by: text == "+=" ? "-=" : "+="), .statement)
        }
        return .visitChildren
    }

    override func visit(_ node: IntegerLiteralExprSyntax) -> SyntaxVisitorContinueKind {
        guard let value = value(of: node.literal.text), !isCapacity(node) else { return .visitChildren }
        if value < Int.max { add(node, "number", "\(value + 1)") }
        if value > 0 { add(node, "number", "\(value - 1)") }
        return .visitChildren
    }

    override func visit(_ node: FloatLiteralExprSyntax) -> SyntaxVisitorContinueKind {
        guard let value = Double(node.literal.text.filter { $0 != "_" }) else { return .visitChildren }
        add(node, "number", value == 0 ? "1.0" : "\(value * 2)")
        return .visitChildren
    }

    override func visit(_ node: BooleanLiteralExprSyntax) -> SyntaxVisitorContinueKind {
        if node.parent?.is(ExpressionPatternSyntax.self) != true {
            add(node, "truth", node.literal.text == "true" ? "false" : "true")
        }
        return .visitChildren
    }

    override func visit(_ node: PrefixOperatorExprSyntax) -> SyntaxVisitorContinueKind {
        if node.operator.text == "!" { add(node, "negation", node.expression.trimmedDescription) }
        return .visitChildren
    }

    override func visit(_ node: FunctionCallExprSyntax) -> SyntaxVisitorContinueKind {
        if let name = node.calledExpression.as(DeclReferenceExprSyntax.self), ["min", "max"].contains(name.baseName.text),
            node.arguments.count > 1
        {
            add(node, "bound", replacing(name, in: node, by: name.baseName.text == "min" ? "max" : "min"))
        }
        return .visitChildren
    }

    // MARK: Conditions

    override func visit(_ node: ConditionElementListSyntax) -> SyntaxVisitorContinueKind {
        for element in node {
            if case .expression(let expression) = element.condition { force(expression) }
        }
        if node.contains(where: {
            $0.condition.is(OptionalBindingConditionSyntax.self) || $0.condition.is(MatchingPatternConditionSyntax.self)
        }) {
            add(node, "binding fails", "", .condition)
        }
        return .visitChildren
    }

    override func visit(_ node: TernaryExprSyntax) -> SyntaxVisitorContinueKind {
        force(node.condition)
        return .visitChildren
    }

    override func visit(_ node: WhereClauseSyntax) -> SyntaxVisitorContinueKind {
        force(node.condition)
        return .visitChildren
    }

    private func force(_ condition: ExprSyntax) {
        if condition.is(BooleanLiteralExprSyntax.self) { return }
        add(condition, "condition", "true")
        add(condition, "condition", "false")
    }

    // MARK: Statements

    override func visit(_ node: ReturnStmtSyntax) -> SyntaxVisitorContinueKind {
        if let expression = node.expression, returnType(around: Syntax(node)) == "Bool" { negate(expression) }
        return .visitChildren
    }

    override func visit(_ node: CodeBlockItemSyntax) -> SyntaxVisitorContinueKind {
        guard case .expr(let expression) = node.item else { return .visitChildren }
        let isAlone = node.parent?.as(CodeBlockItemListSyntax.self)?.count == 1
        let type = isAlone ? returnType(around: Syntax(node)) : nil
        if type == "Bool" { negate(expression) }
        guard type == nil else { return .visitChildren }
        if let call = call(in: expression), !Self.keptCalls.contains(call.calledExpression.trimmedDescription),
            call.calledExpression.as(MemberAccessExprSyntax.self).map({ !Self.keptCalls.contains($0.declName.baseName.text) }
            ) ?? true
        {
            add(expression, "call removed", "", .statement)
        }
        return .visitChildren
    }

    private func negate(_ expression: ExprSyntax) {
        if expression.is(InfixOperatorExprSyntax.self) || expression.is(BooleanLiteralExprSyntax.self)
            || expression.is(PrefixOperatorExprSyntax.self) || expression.is(SwitchExprSyntax.self)
            || expression.is(IfExprSyntax.self)
        {
            return
        }
        add(expression, "result", "!(\(expression.trimmedDescription))")
    }

    /// Returns the call, if the statement is a call whose result is unused.
    private func call(in expression: ExprSyntax) -> FunctionCallExprSyntax? {
        if let call = expression.as(FunctionCallExprSyntax.self) { return call }
        if let trying = expression.as(TryExprSyntax.self) { return call(in: trying.expression) }
        if let awaiting = expression.as(AwaitExprSyntax.self) { return call(in: awaiting.expression) }
        if let chain = expression.as(OptionalChainingExprSyntax.self) { return call(in: chain.expression) }
        if let assignment = expression.as(InfixOperatorExprSyntax.self),
            assignment.leftOperand.is(DiscardAssignmentExprSyntax.self)
        {
            return call(in: assignment.rightOperand)
        }
        return nil
    }

    // MARK: Context

    /// Returns the result type of the function or property around a statement; nil in a closure or without a result.
    private func returnType(around node: Syntax) -> String? {
        var current = node.parent
        while let this = current {
            if this.is(ClosureExprSyntax.self) || this.is(InitializerDeclSyntax.self) { return nil }
            if let function = this.as(FunctionDeclSyntax.self) {
                return function.signature.returnClause?.type.trimmedDescription
            }
            if let accessor = this.as(AccessorDeclSyntax.self), accessor.accessorSpecifier.text != "get" { return nil }
            if let binding = this.as(PatternBindingSyntax.self) { return binding.typeAnnotation?.type.trimmedDescription }
            if let accessed = this.as(SubscriptDeclSyntax.self) { return accessed.returnClause.type.trimmedDescription }
            if let statement = this.as(CodeBlockItemListSyntax.self), statement.parent?.is(CodeBlockSyntax.self) == true,
                !node.is(ReturnStmtSyntax.self),
                let owner = statement.parent?.parent, !owner.is(FunctionDeclSyntax.self), !owner.is(AccessorDeclSyntax.self)
            {
                // The end of an inner block is not the result of the function.
                return nil
            }
            current = this.parent
        }
        return nil
    }

    private func joinsText(_ node: InfixOperatorExprSyntax) -> Bool {
        [node.leftOperand, node.rightOperand].contains { operand in
            guard let binary = node.operator.as(BinaryOperatorExprSyntax.self), binary.operator.text == "+" else {
                return false
            }
            if let inner = operand.as(InfixOperatorExprSyntax.self) { return joinsText(inner) }
            return operand.is(StringLiteralExprSyntax.self) || operand.is(ArrayExprSyntax.self)
        }
    }

    private func isCapacity(_ node: IntegerLiteralExprSyntax) -> Bool {
        guard let argument = node.parent?.as(LabeledExprSyntax.self) else { return false }
        if argument.label?.text.contains("apacity") == true { return true }
        let call = argument.parent?.parent?.as(FunctionCallExprSyntax.self)
        return call?.calledExpression.trimmedDescription.hasSuffix("reserveCapacity") == true
    }

    private func value(of literal: String) -> Int? {
        let digits = literal.filter { $0 != "_" }
        if digits.hasPrefix("0x") { return Int(digits.dropFirst(2), radix: 16) }
        if digits.hasPrefix("0b") { return Int(digits.dropFirst(2), radix: 2) }
        if digits.hasPrefix("0o") { return Int(digits.dropFirst(2), radix: 8) }
        return Int(digits)
    }

    // MARK: Writing them down

    private func replacing(_ part: some SyntaxProtocol, in whole: some SyntaxProtocol, by text: String) -> String {
        let (wholeRange, partRange) = (range(of: whole), range(of: part))
        return string(wholeRange.lowerBound..<partRange.lowerBound) + text
            + string(partRange.upperBound..<wholeRange.upperBound)
    }

    private func add(_ node: some SyntaxProtocol, _ change: String, _ text: String, _ shape: Mutant.Shape = .expression) {
        let range = range(of: node)
        let location = locations.location(for: node.positionAfterSkippingLeadingTrivia)
        let newline = UInt8(ascii: "\n")
        let begin = source[..<range.lowerBound].lastIndex(of: newline).map { $0 + 1 } ?? 0
        let end = source[range.lowerBound...].firstIndex(of: newline) ?? source.endIndex
        mutants.append(
            Mutant(
                file: file, line: location.line, column: location.column,
                context: string(begin..<end).trimmingCharacters(in: .whitespaces), change: change, shape: shape,
                start: range.lowerBound,
                end: shape == .condition ? range.lowerBound : range.upperBound, original: string(range), replacement: text))
    }

    private func range(of node: some SyntaxProtocol) -> Range<Int> {
        node.positionAfterSkippingLeadingTrivia.utf8Offset..<node.endPositionBeforeTrailingTrivia.utf8Offset
    }

    private func string(_ range: Range<Int>) -> String { String(decoding: source[range], as: UTF8.self) }
}
