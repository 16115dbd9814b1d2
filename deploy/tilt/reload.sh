# In a container: runs a program, and runs it again on HUP (`kill -HUP 1`), which is what a live update sends once it has
# written the new code. TERM ends it as it would have without us; a program that ends by itself ends the container.
leaving=
child=
again() { once_more=yes && end; }
leave() { leaving=yes && end; }
end() { [ -z "$child" ] || kill -TERM "$child"; }
trap again HUP
trap leave TERM INT
while :; do
    once_more=
    child=
    "$@" &
    child=$!
    [ -z "$once_more$leaving" ] || end # it was asked for before the child had a number
    code=0
    # A signal ends `wait`, too: the child is there until it has ended.
    while kill -0 "$child" 2>/dev/null; do code=0; wait "$child" || code=$?; done
    [ -n "$once_more" ] && [ -z "$leaving" ] || exit "$code"
done
