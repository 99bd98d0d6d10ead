#!/bin/sh
# What comes from others is in variables, never in the text of a program.
printf 'The dinosaur at %s greets %s.\n' "$COUNTER" "$NAME"
