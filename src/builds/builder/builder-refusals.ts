import { connect } from 'node:net';
import { Fault } from '../../foundation/fault.ts';
import type { TrustDomain } from '../domain.ts';
import { wipeLabel } from './builder-fit.ts';

/** The builder went away, or no builder answers. Another builder or another attempt may succeed. */
export class BuilderLost extends Fault {
  /** True if the builder went away during the build. The build may be the cause. */
  readonly hadBegun: boolean;

  constructor(message: string, hadBegun: boolean, cause?: unknown) {
    super('unavailable', message, { phase: 'build', cause });
    this.hadBegun = hadBegun;
  }
}

const howToGetOne =
  "ask its operator to start one ('docker compose -f builder/compose.yaml up -d' in the folder of Sluice, 'npm run buildkit' on Debian, or 'buildkit.enabled' of the Helm chart) or to name one with SLUICE_BUILDKIT";

/** The trouble of a builder that gives no reason. */
export const noResponse = 'it does not answer';

/** Returns the refusal of all builds: there is no builder, or none that answers. */
export function noBuilder(troubles: readonly string[]): Fault {
  const message =
    troubles.length === 0
      ? `This server has no builder: ${howToGetOne}`
      : `This server cannot use the builder that it found: ${troubles.join('; ')}. Ask its operator, whose log has the address`;
  return new Fault('not-provided', message, { phase: 'build' });
}

/** Build steps can connect to everything that their builder can connect to. */
export function closedToAnonymous(): Fault {
  const message =
    "This server builds only for callers with a login, because build steps on its builder can reach the server's network: send an access token (`towerAccessToken`; for the command line, SLUICE_TOKEN) or log in with an account. On a server of your own, 'sluice user add EMAIL' and 'sluice token add --user EMAIL --name laptop' make a token. Its operator can also open a builder to everybody (SLUICE_BUILDS_OPEN_BUILDERS), or give it its own network: the log says what that requires";
  return new Fault('unauthorized', message, { phase: 'build' });
}

/** Returns the refusal of all builds where the only builder cannot push. */
export function classicStore(): Fault {
  const message = `The only builder of this server is in a Docker engine with the classic image store, which cannot push what it builds: ask its operator to switch on the containerd image store (Docker 23 or newer: "features": {"containerd-snapshotter": true} in /etc/docker/daemon.json), or ${howToGetOne}`;
  return new Fault('not-provided', message, { phase: 'build' });
}

/** Returns the refusal of a build for which no builder is apart from those of others. */
export function notApart({ isAlone }: TrustDomain): Fault {
  const who = isAlone
    ? 'builds with secrets, SSH keys or proxy arguments'
    : 'builds of callers without a login';
  return new Fault(
    isAlone ? 'not-provided' : 'unauthorized',
    `This server does not run ${who}: other callers use the same builder, and would share its cache with them. ${
      isAlone
        ? 'Build without them'
        : 'Send an access token (`towerAccessToken`; for the command line, SLUICE_TOKEN) or log in with an account'
    }, or ask its operator to give Sluice a builder of its own (the worker label ${wipeLabel} in docs/configuration.md)`,
    { phase: 'build' },
  );
}

/** Messages of failed connections, and their meaning for a reader who does not know the machine. */
const socketMeanings: readonly (readonly [pattern: RegExp, meaning: string])[] = [
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
    path === undefined ? messagesOf(error) : ((await socketError(path)) ?? messagesOf(error));
  const found = socketMeanings.find(([pattern]) => pattern.test(text));
  return found?.[1] ?? noResponse;
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
function messagesOf(error: unknown): string {
  const lines: string[] = [];
  for (let each = error; each instanceof Error && lines.length < 5; each = each.cause) {
    lines.push(each.message);
  }
  return lines.join('\n');
}
