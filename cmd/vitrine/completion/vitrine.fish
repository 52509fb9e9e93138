# fish completion for vitrine. It asks vitrine itself for the words.
function __vitrine_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        if string match -q ':files*' -- $line
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c vitrine -f -a '(__vitrine_complete)'
