# Functions of prolog, epilog and taskprolog: the settings of node.conf, and the start of programs that outlive a prolog.
# Read with `.` in a shell whose failure is harmless. POSIX sh, and /proc of Linux.

LC_ALL=C
export LC_ALL

# Every setting as $SLURMSCHED_NAME: from the environment, else node.conf, else its default.
read_settings() {
    settings=${SLURMSCHED_NODE_CONF:-/etc/slurmsched/node.conf}
    if [ -r "$settings" ]; then
        while IFS='=' read -r key value || [ -n "$key" ]; do
            case $key in
                PYTHON | RUN_DIR | TASK_DIR | SPOOL_DIR | SPOOL_MIB | SPOOL_DAYS | EVERY_S | EARLY_S | IDLE_S | MEASURE_DAYS \
                    | COLLECTOR | COLLECTOR_CA | COLLECTOR_USER | TOKEN_FILE | MUNGE | MUNGE_SOCKET | SHARE_PARTITION | MPS | MPS_DIR | GPU_INFO_DIR)
                    eval "[ -n \"\${SLURMSCHED_$key+said}\" ] || SLURMSCHED_$key=\$value"
                    ;;
            esac
        done <"$settings"
    fi
    : "${SLURMSCHED_PYTHON:=/usr/bin/python3}" "${SLURMSCHED_RUN_DIR:=/run/slurmsched-node}"
    : "${SLURMSCHED_TASK_DIR:=/run/slurmsched-tasks}" "${SLURMSCHED_SPOOL_DIR:=/var/spool/slurmsched-node}"
    : "${SLURMSCHED_SPOOL_MIB:=16}" "${SLURMSCHED_SPOOL_DAYS:=7}" "${SLURMSCHED_EVERY_S:=1}"
    : "${SLURMSCHED_EARLY_S:=200}" "${SLURMSCHED_IDLE_S:=1800}" "${SLURMSCHED_MEASURE_DAYS:=30}" "${SLURMSCHED_COLLECTOR:=}"
    : "${SLURMSCHED_COLLECTOR_USER:=slurmsched}" "${SLURMSCHED_MUNGE:=munge}" "${SLURMSCHED_MUNGE_SOCKET:=}"
    : "${SLURMSCHED_COLLECTOR_CA:=}" "${SLURMSCHED_TOKEN_FILE:=/etc/slurmsched/node.token}"
    : "${SLURMSCHED_SHARE_PARTITION:=shared}" "${SLURMSCHED_MPS:=nvidia-cuda-mps-control}"
    : "${SLURMSCHED_MPS_DIR:=/run/slurmsched-mps}" "${SLURMSCHED_GPU_INFO_DIR:=/proc/driver/nvidia/gpus}"
    export SLURMSCHED_SPOOL_DIR SLURMSCHED_SPOOL_MIB SLURMSCHED_SPOOL_DAYS SLURMSCHED_EVERY_S SLURMSCHED_EARLY_S
    export SLURMSCHED_IDLE_S
    export SLURMSCHED_MEASURE_DAYS SLURMSCHED_COLLECTOR SLURMSCHED_COLLECTOR_USER SLURMSCHED_MUNGE SLURMSCHED_MUNGE_SOCKET
    export SLURMSCHED_COLLECTOR_CA SLURMSCHED_TOKEN_FILE
    export SLURMSCHED_RUN_DIR SLURMSCHED_MPS SLURMSCHED_MPS_DIR
}

# Sets job to the name of this job's files: several slurmd may share a machine. False where Slurm's values are unfit.
name_job() {
    case ${SLURM_JOB_ID:-} in '' | *[!0-9]*) return 1 ;; esac
    case ${SLURMD_NODENAME:-} in '' | .* | *[!A-Za-z0-9_.-]*) return 1 ;; esac
    job=$SLURM_JOB_ID.$SLURMD_NODENAME
    SLURMSCHED_PID_FILE=$SLURMSCHED_RUN_DIR/$job.pid SLURMSCHED_TASK_FILE=$SLURMSCHED_TASK_DIR/$job.env
    SLURMSCHED_SHARE_FILE=$SLURMSCHED_RUN_DIR/$job.share
    export SLURMSCHED_PID_FILE SLURMSCHED_TASK_FILE
}

# Make directory $1 if it is missing; false unless it is ours, real, and of mode $2 as ls shows it.
own_directory() {
    mkdir -p "$1"
    [ -d "$1" ] && [ ! -L "$1" ] || return 1
    wanted=$2
    set -- $(ls -ldn "$1")
    case $1 in "$wanted" | "$wanted".) ;; *) return 1 ;; esac # a dot where SELinux labels
    [ "$3" = "$(id -u)" ]
}

# Sets state, session and since (start in clock ticks, which tells it from a later process of the same pid) of pid $1.
look_at() {
    read -r stat <"/proc/$1/stat" || return 1
    set -- ${stat##*) }
    state=$1 session=$4 since=${20}
}

# Start a program in a session of its own, and wait until it has one: slurmd kills the group of a prolog that ends.
# Sets pid and since.
detach() {
    setsid "$@" </dev/null >/dev/null 2>&1 &
    pid=$!
    while look_at "$pid"; do
        [ "$session" != "$pid" ] || return 0
        [ "$state" != Z ] || return 1
        sleep 0.01
    done
    return 1
}

# Sets token to the items of the next slurmsched: token in rest; the grammar is that of job_submit.lua.
next_token() {
    while :; do
        case $rest in *slurmsched:*) ;; *) return 1 ;; esac
        before=${rest%%slurmsched:*}
        rest=${rest#*slurmsched:}
        case $before in *[A-Za-z0-9_]) continue ;; esac
        token=${rest%%[$ENDS]*}
        return 0
    done
}

# True if comment $1 has slurmsched:noprofile or slurmsched:off.
unwanted() {
    rest=$1
    while next_token; do
        case ,$token, in *,noprofile,* | *,off,*) return 0 ;; esac
    done
    return 1
}

# Sets gpus (0+1), threads (percent), mib and turns (yes: without MPS) from the share token of comment $1, which is
# GPUS[:tPERCENT][:mMIB][:time]. False where there is no valid one.
find_share() {
    rest=$1 share=
    while next_token; do
        case ,$token, in *,share=*) share=${token#*share=} share=${share%%,*} ;; esac
    done
    gpus=${share%%:*} threads= mib= turns=
    case $gpus in '' | *[!0-9+]* | +* | *+ | *++*) return 1 ;; esac
    while case $share in *:*) true ;; *) false ;; esac; do
        share=${share#*:}
        case ${share%%:*} in
            time) turns=yes ;;
            t[0-9]*) threads=${share%%:*} threads=${threads#t} ;;
            m[0-9]*) mib=${share%%:*} mib=${mib#m} ;;
            *) return 1 ;;
        esac
    done
    case $threads$mib in *[!0-9]*) return 1 ;; esac
}

# Sets uuid to the UUID that the driver gives for device file number $1; false where there is none.
uuid_of() {
    for information in "$SLURMSCHED_GPU_INFO_DIR"/*/information; do
        minor= uuid=
        while read -r key word value _; do
            case "$key $word" in 'Device Minor:') minor=$value ;; 'GPU UUID:') uuid=$value ;; esac
        done <"$information"
        [ "$minor" = "$1" ] || continue
        case $uuid in *[!A-Za-z0-9-]*) return 1 ;; GPU-*) return 0 ;; esac
    done
    return 1
}
ENDS=$(printf ' \t\n\v\f\r;')
