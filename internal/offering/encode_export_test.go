package offering

// The two encoders, which must agree.
var (
	Encode     = encode
	EncodeTree = encodeTree
)
