package expr

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Secret is what secret("name") becomes in a rendered document: the name of a
// secret, never its value. No text can be mistaken for it, since it is none.
type Secret string

var secretType = cel.OpaqueType("secret")

// WithSecrets returns an environment where secret("name") can be said, for
// these names. It is a whole value: it stands in no text and has no length.
func (e *Env) WithSecrets(names ...string) (*Env, error) {
	env, err := e.env.Extend(cel.Function("secret", cel.Overload("secret_string", []*cel.Type{cel.StringType}, secretType,
		cel.UnaryBinding(func(name ref.Val) ref.Val { return secretValue(name.(types.String)) }))))
	if err != nil {
		return nil, fmt.Errorf("cannot make an expression environment: %w", err)
	}
	return &Env{env: env, secrets: names}, nil
}

// misnamed finds secrets that there are not. The name must be written out, so
// that whoever reads the document knows what leaves with it.
func (e *Env) misnamed(source string, checked *cel.Ast) []Problem {
	if !strings.Contains(source, "secret") {
		return nil
	}
	tree := checked.NativeRep()
	var problems []Problem
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() != ast.CallKind || x.AsCall().FunctionName() != "secret" || len(x.AsCall().Args()) != 1 {
			return
		}
		arg := x.AsCall().Args()[0]
		name, literal := "", arg.Kind() == ast.LiteralKind
		if literal {
			name, literal = arg.AsLiteral().Value().(string)
		}
		if literal && slices.Contains(e.secrets, name) {
			return
		}
		at := tree.SourceInfo().GetStartLocation(arg.ID())
		problems = append(problems, Problem{
			Offset:  byteOffset(source, at.Line(), at.Column()),
			Message: "there is no such secret here; there are " + strings.Join(e.secrets, ", "),
		})
	}))
	return problems
}

// secretValue is a secret inside CEL.
type secretValue string

var errSecret = errors.New("a secret stays one")

func (v secretValue) ConvertToNative(reflect.Type) (any, error) { return nil, errSecret }
func (v secretValue) ConvertToType(t ref.Type) ref.Val {
	if t.TypeName() == types.TypeType.TypeName() {
		return secretType
	}
	return types.WrapErr(errSecret)
}
func (v secretValue) Equal(ref.Val) ref.Val { return types.False }
func (v secretValue) Type() ref.Type        { return secretType }
func (v secretValue) Value() any            { return Secret(v) }
