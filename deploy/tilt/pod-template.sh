# In a pool-manager's container: takes the images that Tilt has built into the template of worker pods, then goes on.
# $WORKER_IMAGE, $SANDBOX_IMAGE: their names as the cluster knows them; $POOL_KUBERNETES_FILE: the template.
set -eu
mine=/tmp/kubernetes.toml
sed -e "s#^worker_image = .*#worker_image = \"$WORKER_IMAGE\"#" \
    -e "s#^sandbox_image = .*#sandbox_image = \"$SANDBOX_IMAGE\"#" "$POOL_KUBERNETES_FILE" >"$mine"
export POOL_KUBERNETES_FILE="$mine"
exec "$@"
