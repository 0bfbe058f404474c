# Completion of landstrip(1) for fish.
# Made from `landstrip --help` by a test of the broker: change that, and run the test.

function __landstrip_no_tool
    set -l words (commandline -opc)[2..-1]
    while set -q words[1]
        switch $words[1]
            case -p --policy --format --trap-fd --learn --report --ask
                set words $words[2..-1]
            case --
                return 1
            case '-*'
            case '*'
                return 1
        end
        set words $words[2..-1]
    end
end

complete -c landstrip -x -a '(__fish_complete_subcommand -- -p --policy --format --trap-fd --learn --report --ask)'
complete -c landstrip -n __landstrip_no_tool -s p -l policy -r -F -a 'agent build offline-test read-only' -d 'policy file'
complete -c landstrip -n __landstrip_no_tool -l format -x -a 'json yaml' -d 'json or yaml, for every policy'
complete -c landstrip -n __landstrip_no_tool -l trap-fd -x -d 'write denials as JSON lines to this descriptor'
complete -c landstrip -n __landstrip_no_tool -l check -d 'parse, merge, resolve and compile the policy, report what is wrong, and run nothing'
complete -c landstrip -n __landstrip_no_tool -l explain -d 'print what would be enforced and why'
complete -c landstrip -n __landstrip_no_tool -l explain=full -d 'print what would be enforced and why'
complete -c landstrip -n __landstrip_no_tool -l explain=json -d 'print what would be enforced and why'
complete -c landstrip -n __landstrip_no_tool -l doctor -d 'report what this kernel and host allow, by trying it, and attack a sandbox with this policy'
complete -c landstrip -n __landstrip_no_tool -l doctor=json -d 'report what this kernel and host allow, by trying it, and attack a sandbox with this policy'
complete -c landstrip -n __landstrip_no_tool -l learn -r -F -d 'run TOOL unconfined except for the deny rules, and write the policy that it needs to a new FILE'
complete -c landstrip -n __landstrip_no_tool -l init -d 'write a commented policy for the working tree to standard output'
complete -c landstrip -n __landstrip_no_tool -l denials -d 'list what was refused to runs under report.keep, and what would have allowed it'
complete -c landstrip -n __landstrip_no_tool -l denials=json -d 'list what was refused to runs under report.keep, and what would have allowed it'
complete -c landstrip -n __landstrip_no_tool -l report -x -a 'all changes network none' -d 'what to watch and report'
complete -c landstrip -n __landstrip_no_tool -l ask -x -a 'terminal' -d 'ask before refusing what no rule allows'
complete -c landstrip -n __landstrip_no_tool -l watch -d 'show what is refused to this user\'s runs in other terminals, or to one of them, and answer what --ask terminal asks there'
complete -c landstrip -n __landstrip_no_tool -l debug -d 'log decisions to standard error'
complete -c landstrip -n __landstrip_no_tool -s h -l help -d 'print this help'
complete -c landstrip -n __landstrip_no_tool -s V -l version -d 'print the version'
