# Completion of landstrip(1) for bash.
# Made from `landstrip --help` by a test of the broker: change that, and run the test.

# The values of the option $1 that begin with $2.
_landstrip_values() {
    case $1 in
    -p | --policy) compgen -W 'agent build offline-test read-only' -- "$2"; compgen -f -- "$2" ;;
    --format) compgen -W 'json yaml' -- "$2" ;;
    --learn) compgen -f -- "$2" ;;
    --report) compgen -W 'all changes network none' -- "$2" ;;
    --ask) compgen -W 'terminal' -- "$2" ;;
    esac
}

_landstrip() {
    local word=${COMP_WORDS[COMP_CWORD]} option='' index=1
    COMPREPLY=()
    while ((index < COMP_CWORD)); do
        option=${COMP_WORDS[index]}
        case $option in
        --) ((index++)) ;;&
        -- | [!-]* | '') break ;;
        esac
        ((index++))
        # An equals sign is a word of its own, if COMP_WORDBREAKS has it.
        if [[ ${COMP_WORDS[index]} == = ]]; then
            [[ $word == = ]] && word=''
            ((index++))
        else
            case $option in
            -p | --policy | --format | --trap-fd | --learn | --report | --ask) ;;
            *) continue ;;
            esac
        fi
        if ((index >= COMP_CWORD)); then
            compopt -o filenames
            mapfile -t COMPREPLY < <(_landstrip_values "$option" "$word")
            return
        fi
        ((index++))
    done
    if ((index < COMP_CWORD)); then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$index"
        else
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
        fi
    elif [[ $word == -* && $option != -- ]]; then
        mapfile -t COMPREPLY < <(compgen -W '-p --policy --format --trap-fd --check --explain --doctor --learn --init --denials --report --ask --watch --debug -h --help -V --version --explain=full --explain=json --doctor=json --denials=json' -- "$word")
    else
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -c -- "$word")
    fi
}

complete -F _landstrip landstrip
