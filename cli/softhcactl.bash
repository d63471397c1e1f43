# bash completion for softhcactl. Names of tenants come from the running daemon.
# shellcheck shell=bash

_softhcactl_tenants() {
  local i options=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in
      --socket | --runtime-dir) options+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]}") ;;
    esac
  done
  "${COMP_WORDS[0]}" "${options[@]}" tenants 2>/dev/null | awk 'NR > 1 { print $1 }'
}

_softhcactl() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' i
  local common='--json --as --socket --runtime-dir --help --version'
  COMPREPLY=()
  case $before in
    --socket) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    -w | --write) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    --runtime-dir) mapfile -t COMPREPLY < <(compgen -d -- "$word"); return ;;
    --owner) mapfile -t COMPREPLY < <(compgen -u -- "$word"); return ;;
    --group) mapfile -t COMPREPLY < <(compgen -g -- "$word"); return ;;
    --as | -t | --tenant) mapfile -t COMPREPLY < <(compgen -W "$(_softhcactl_tenants)" -- "$word"); return ;;
  esac
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in
      --socket | --runtime-dir | --as) ((++i)) ;;
      -*) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  local words
  case $command in
    '') words="status tenants tenant qps srqs connections listeners gsa set level qp reload revisions diff rollback saved top explain events capture fault $common" ;;
    tenant)
      case $before in
        show | remove) words=$(_softhcactl_tenants) ;;
        tenant) words="show create remove $common" ;;
        *) words="--template --address --owner --group --mode --share --class --save --end $common" ;;
      esac
      ;;
    qps | srqs | connections | listeners) words="--tenant $common" ;;
    events) words="--follow --tenant --after $common" ;;
    fault)
      case $before in
        fault) words="add list remove $common" ;;
        add) words="drop delay duplicate reorder corrupt mark rnr" ;;
        -d | --direction) words="both sent received" ;;
        *) words="--tenant --port --qp --direction --every --probability --seed --count --for --delay --jitter --by --all $common" ;;
      esac
      ;;
    capture) words="--tenant --port --write --count --seconds --snaplen --buffer $common" ;;
    explain) words="$(_softhcactl_tenants) --interval --total $common" ;;
    top) words="--once --count --interval $common" ;;
    reload) words="--dry-run $common" ;;
    saved) words="drop --all $common" ;;
    qp) if [[ $before == qp ]]; then words="show set $common"; elif [[ $before == show ]]; then words=''; else words="bytes_per_second= burst_bytes= messages_per_second= burst_messages= min_bytes_per_second= inbound_rate.bytes_per_second= inbound_rate.burst_bytes= inbound_rate.messages_per_second= inbound_rate.burst_messages= served_rate.bytes_per_second= served_rate.burst_bytes= served_rate.messages_per_second= served_rate.burst_messages= srq_limit= importance= $common"; fi ;;
    level)
      if [[ $before == level ]]; then words="make change rename remove $common"; else words="default= dscp= cgroups= service_levels= traffic_classes= vcbs= pcbs= tvls= shared= weight= execution_credits= completion_credits= rate.bytes_per_second= rate.burst_bytes= rate.messages_per_second= rate.burst_messages= rate.min_bytes_per_second= inbound_rate.bytes_per_second= inbound_rate.burst_bytes= inbound_rate.messages_per_second= inbound_rate.burst_messages= served_rate.bytes_per_second= served_rate.burst_bytes= served_rate.messages_per_second= served_rate.burst_messages= $common"; fi
      compopt -o nospace 2>/dev/null
      ;;
    set)
      words="$(_softhcactl_tenants) --dry-run --save"
      words+=' share= class= vcbs= pcbs= tvls= shared= vcbs_per_process= execution_credits= completion_credits='
      words+=' kick_list= weight= rate.bytes_per_second= rate.burst_bytes= rate.messages_per_second='
      words+=' inbound_rate.bytes_per_second= inbound_rate.burst_bytes= inbound_rate.messages_per_second= inbound_rate.burst_messages='
      words+=' served_rate.bytes_per_second= served_rate.burst_bytes= served_rate.messages_per_second= served_rate.burst_messages='
      words+=' rate.burst_messages= rate.min_bytes_per_second= srq.limit= srq.kind= srq.on_exceed= srq.statistical='
      words+=' connections.identifiers= connections.listeners= connections.most='
      words+=' connections.half_open= connections.connects_per_second= connections.pcbs_each='
      words+=' srq.overcommit= srq.watermark= sessions= queue_pairs= completion_queues='
      words+=' shared_receive_queues= memory_regions= memory_windows= protection_domains= address_handles='
      words+=' registered_bytes= shared_bytes= queue_bytes= descriptors= mappings='
      compopt -o nospace 2>/dev/null
      ;;
    *) words=$common ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _softhcactl softhcactl
