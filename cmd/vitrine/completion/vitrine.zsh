#compdef vitrine
# zsh completion for vitrine. It asks vitrine itself for the words.
_vitrine() {
	local line word help files=
	local -a found
	while IFS= read -r line; do
		word=${line%%$'\t'*} help=${line#*$'\t'}
		if [[ $word == :files ]]; then
			files=yes
		else
			found+=("${word//:/\\:}${help:+:$help}")
		fi
	done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
	[[ -n $files ]] && _files
	(( $#found )) && _describe -V vitrine found
}
if [[ $funcstack[1] == _vitrine ]]; then
	_vitrine "$@"
else
	compdef _vitrine vitrine
fi
