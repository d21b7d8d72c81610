package registry

var ApplyError = applyError
