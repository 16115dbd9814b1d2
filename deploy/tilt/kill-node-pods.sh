#!/bin/sh
# Kills all worker pods of one node, without grace: what a dead node takes with it, except the node.
# $NODE: which; empty: the one that has most.
set -eu
pods=agent-sandbox-pods
node=${NODE:-}
if [ -z "$node" ]; then
    node=$(kubectl get pods -n "$pods" -o 'jsonpath={range .items[*]}{.spec.nodeName}{"\n"}{end}' \
        | sed '/^$/d' | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
fi
[ -n "$node" ] || { echo "there is no worker pod" >&2; exit 1; }
echo "killing the worker pods of node $node"
kubectl delete pods -n "$pods" --field-selector "spec.nodeName=$node" --grace-period=0 --force
