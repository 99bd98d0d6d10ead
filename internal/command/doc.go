// Package command takes requests that come as messages.
//
// It owns what a command is (the request of the API that it stands for), that it is
// carried out once however often it comes, and what its sender hears. It must not
// know what a request does: the API carries it out, with the token in the message,
// so that who may what, what is valid and what is said are the same.
package command
