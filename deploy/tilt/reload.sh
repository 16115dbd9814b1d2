# In a container: runs a program, and runs it again on HUP (`kill -HUP 1`), which is what a live update sends once it has
# written the new code. TERM ends it as it would have without us; a program that ends by itself ends the container.
leaving=
child=
heard=
again() { once_more=yes && end; }
leave() { leaving=yes && end; }
end() { heard=$heard. && { [ -z "$child" ] || kill -TERM "$child"; }; }
trap again HUP
trap leave TERM INT
while :; do
    once_more=
    child=
    "$@" &
    child=$!
    [ -z "$once_more$leaving" ] || end # it was asked for before the child had a number
    code=127
    while :; do # a signal ends `wait`, too, with a code of its own: then the child's is still to be had
        before=$heard
        wait "$child"
        ended=$?
        [ "$ended" -eq 127 ] || code=$ended # 127: it was told the last time
        [ "$heard" != "$before" ] || break
    done
    [ -n "$once_more" ] && [ -z "$leaving" ] || exit "$code"
done
