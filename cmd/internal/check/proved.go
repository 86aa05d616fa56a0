package check

// proved are the checks whose diagnostics are proofs: Input.Prove reports them.
var proved = []*Analyzer{
	{
		Code: "CG801", Name: "proved-error", Severity: Warning,
		Title: "an expression is an error for an object that the policy matches",
		Text: `celgate check --prove found a request for which the expression is an error with an effect, and evaluated
it. The example is the object. If CG302 names the read, it carries the object instead. It is a note in a
messageExpression, where an error only restores the default message.`,
		Before: "expression: int(object.metadata.annotations['example.com/size']) < 5",
		After:  "expression: object.metadata.?annotations['example.com/size'].orValue('').matches('^[0-4]$')",
		run:    func(*pass) {},
	},
	{
		Code: "CG802", Name: "proved-constant", Severity: Warning,
		Title: "a validation, match condition, message or binding has the same effect for every request",
		Text: `celgate check --prove proved for all requests that the validation never denies or always does, that the
match condition is never or always true, that the messageExpression is never the message, or that the binding does not
match any request that its policy matches.`,
		Before: "expression: object.spec.replicas >= 0 || object.spec.paused",
		After:  "expression: object.spec.replicas >= 1 || object.spec.paused",
		run:    func(*pass) {},
	},
	{
		Code: "CG803", Name: "proved-dead-part", Severity: Note,
		Title: "an operand or branch makes no difference",
		Text: `celgate check --prove proved for all requests that the expression has the same value without the operand of
&& or ||, or with the other branch of ?:. All reported parts of a policy can be removed together.`,
		Before: "expression: object.spec.replicas <= 5 && object.spec.replicas <= 7",
		After:  "expression: object.spec.replicas <= 5",
		run:    func(*pass) {},
	},
}
