const reasons = [
  ...[
    'connection refused',
    'no route to host',
    'network is unreachable',
    'no such host',
    'timeout',
  ],
  ...['operation not permitted', 'server misbehaving'],
];
const dialled = /"https?:\/\/([^/"]+)(?:\/[^"]*)?": dial tcp(.*)/s;
const known = new RegExp(reasons.join('|'));
const wantsPlain =
  /"https:\/\/([^/"]+)(?:\/[^"]*)?": http: server gave HTTP response to HTTPS client/;

/**
 * Returns why the builder could not reach a registry and what to do; undefined for a message about anything else. The
 * messages are those of Go's HTTP client.
 */
export function unreachable(message: string): string | undefined {
  const [, plainHost] = wantsPlain.exec(message) ?? [];
  if (plainHost !== undefined) {
    return `the builder speaks https to ${plainHost}, which speaks plain http. Ask the operator to write [registry."${plainHost}"] http = true into the builder's buildkitd.toml`;
  }
  const [, host, rest = ''] = dialled.exec(message) ?? [];
  const [reason] = known.exec(rest) ?? [];
  if (host === undefined || reason === undefined) return undefined;
  const what = `the builder cannot reach ${host} (${reason})`;
  if (!/^(?:127\.|localhost\b|\[::1\])/.test(host)) {
    return `${what}. Ask the operator to let the network of the builder reach it`;
  }
  return `${what}: the builder has its own network, where that address is the builder itself. Ask the operator to start the builder on the network of the server ('docker compose -f builder/compose.yaml up -d' in the folder of Sluice), or to set SLUICE_URL to an address that the builder reaches`;
}
