exec 9>&1 1>/dev/null
PS1= PS2= PS4='+ '
unset PROMPT_COMMAND HISTFILE
set +o history
shopt -s expand_aliases
[ -r @STATE@ ] && . @STATE@
# Writes what another shell needs to go on from here, then says that command $1 ended with status $2.
__rb_done() {
  builtin local -
  builtin set +eux
  builtin local __rb_n=$1 __rb_status=$2 __rb_v __rb_keep
  builtin mapfile -t __rb_all < <(builtin compgen -e; builtin compgen -v)
  __rb_keep=()
  for __rb_v in "${__rb_all[@]}"; do
    case $__rb_v in
      __rb_*|BASH|BASHOPTS|BASHPID|BASH_*|COMP_*|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HOSTNAME|HOSTTYPE|LINENO|MACHTYPE) continue ;;
      OLDPWD|OSTYPE|PIPESTATUS|PPID|PS1|PS2|PS4|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_|OPTERR|OPTIND|COLUMNS|LINES|HISTCMD) continue ;;
    esac
    [[ ${!__rb_v@a} == *r* ]] || __rb_keep+=("$__rb_v")
  done
  # nothing is listed where no process can be started: what was written before is nearer to the truth then
  [ ${#__rb_all[@]} -gt 0 ] && {
    builtin printf '%s\n' 'for __rb_v in $(compgen -e); do unset -v "$__rb_v"; done; unset -v __rb_v'
    builtin declare -p "${__rb_keep[@]}"
    builtin printf 'cd -- %q\n' "$PWD"
    builtin umask -p
    builtin declare -f
    builtin alias -p
  } >| @STATE@.new 2>/dev/null
  builtin unset -v __rb_all
  builtin printf '\ndone %d %d\n' "$__rb_n" "$__rb_status" >&9
}
builtin printf '\nready\n' >&9
