# bash completion for vitrine. It asks vitrine itself for the words.
_vitrine() {
	local word IFS=$'\n'
	COMPREPLY=()
	while read -r word; do
		word=${word%%$'\t'*}
		if [ "$word" = ":files" ]; then
			COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]#=}"))
			compopt -o filenames 2>/dev/null
		else
			COMPREPLY+=("$word")
		fi
	done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _vitrine vitrine
