import { connect } from 'node:net';

/** Messages of failed connections, and their meaning for a reader who does not know the machine. */
const meanings: readonly (readonly [pattern: RegExp, meaning: string])[] = [
  [
    /\bE(?:ACCES|PERM)\b/,
    "permission denied: the user of this server has no access to the builder's socket (start buildkitd with --group and a group of that user)",
  ],
  [/ECONNREFUSED \//, "nothing listens on the builder's socket: the builder has ended"],
  [/\bECONNREFUSED\b/, 'the builder refuses the connection'],
  [/\bENOENT\b/, "the builder's socket does not exist"],
  [
    /\b(?:ENOTFOUND|EAI_AGAIN)\b|Name resolution failed/,
    "the name of the builder's host is unknown",
  ],
  [/\bE(?:HOSTUNREACH|NETUNREACH|TIMEDOUT)\b/, 'the builder cannot be reached'],
  // The alert with which the builder rejects the certificate of this server. Source: RFC 8446, section 6.2.
  [/alert certificate required|alert number 116/i, 'the builder requires a client certificate'],
  [/alert certificate expired|alert number 45/i, 'the client certificate has expired'],
  [
    /alert (?:unknown ca|bad certificate|decrypt error)|alert number (?:42|48)\b/i,
    'the builder does not accept the client certificate',
  ],
  [/certificate has expired/i, "the builder's certificate has expired"],
  [/certificate is not yet valid/i, "the builder's certificate is not valid yet"],
  [
    /does not match certificate|altnames/i,
    "the builder's certificate is for another name: set 'serverName'",
  ],
  [
    /unable to (?:verify|get)|self[- ]signed certificate/i,
    "the builder's certificate was not issued by the configured authority ('ca')",
  ],
  [/wrong version number|packet length too long/i, 'the builder does not speak TLS'],
  [
    /Failed to connect/,
    "the builder closes the connection; if it requires TLS, set its certificates in 'buildkitTls'",
  ],
];

/**
 * Returns why a builder does not answer, for callers who request a build. Omits its address and path: only the log has
 * them.
 */
export async function troubleOf(address: string, error: unknown): Promise<string> {
  const [, path] = /^docker\+unix:\/\/(.+)$/.exec(address) ?? [];
  // The endpoint in a Docker engine closes a connection without a reason.
  const text =
    path === undefined ? messages(error) : ((await socketError(path)) ?? messages(error));
  const found = meanings.find(([pattern]) => pattern.test(text));
  return found?.[1] ?? 'it does not answer';
}

/** Returns the system's error for a socket that cannot be opened; undefined if somebody listens there. */
export function socketError(path: string): Promise<string | undefined> {
  return new Promise(resolve => {
    const socket = connect(path);
    socket.once('error', error => resolve(error.message));
    socket.once('connect', () => {
      socket.destroy();
      resolve(undefined);
    });
  });
}

/** The messages of an error and of its causes. */
function messages(error: unknown): string {
  const lines: string[] = [];
  for (let each = error; each instanceof Error && lines.length < 5; each = each.cause) {
    lines.push(each.message);
  }
  return lines.join('\n');
}
