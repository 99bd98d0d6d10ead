package expr

import (
	"math"
	"math/big"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

var (
	quantityForm = regexp.MustCompile(`^([0-9]{1,19}(?:\.[0-9]{1,9})?)(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?$`)
	errQuantity  = types.NewErr("not a quantity")
)

// Quantity reads an amount as Kubernetes writes it ("50Mi", "1.5G", "3"), in
// whole units; parts of one are rounded up. ok is false for anything else.
func Quantity(s string) (n int64, ok bool) {
	m := quantityForm.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	amount, _ := new(big.Rat).SetString(m[1])
	if m[2] != "" {
		base, power := int64(1000), int64(strings.IndexByte("kMGTPE", m[2][0])+1)
		if strings.HasSuffix(m[2], "i") {
			base, power = 1024, int64(strings.IndexByte("KMGTPE", m[2][0])+1)
		}
		amount.Mul(amount, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(base), big.NewInt(power), nil)))
	}
	whole, rest := new(big.Int).QuoRem(amount.Num(), amount.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() || whole.Int64() == math.MaxInt64 {
		return 0, false
	}
	return whole.Int64(), true
}

// quantities lets expressions compute with amounts: quantity("1Gi") is a
// number, isQuantity tells beforehand.
func quantities() cel.EnvOption {
	read := func(v ref.Val) ref.Val {
		n, ok := Quantity(string(v.(types.String)))
		if !ok {
			return errQuantity
		}
		return types.Int(n)
	}
	can := func(v ref.Val) ref.Val {
		_, ok := Quantity(string(v.(types.String)))
		return types.Bool(ok)
	}
	arg := []*cel.Type{cel.StringType}
	return func(env *cel.Env) (*cel.Env, error) {
		env, err := cel.Function("quantity", cel.Overload("quantity_string", arg, cel.IntType, cel.UnaryBinding(read)))(env)
		if err != nil {
			return nil, err
		}
		return cel.Function("isQuantity", cel.Overload("is_quantity_string", arg, cel.BoolType, cel.UnaryBinding(can)))(env)
	}
}
