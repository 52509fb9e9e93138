//go:build !unix

package accesslog

import "os"

// signals reports nothing: there is no such signal.
func signals() (asked <-chan os.Signal, stop func()) { return nil, func() {} }
