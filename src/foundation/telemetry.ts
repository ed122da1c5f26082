import { randomBytes } from 'node:crypto';
import { type DestinationStream, type Logger as PinoLogger, pino } from 'pino';
import { Registry } from 'prom-client';
import { openLogDestination } from './telemetry/log-destination.ts';

export type Logger = PinoLogger;

/** Writes JSON lines. No line contains unfiltered headers, bodies or URLs: the code that logs chooses each member. */
export function createLogger(level: string, destination?: DestinationStream): Logger {
  const options = {
    level,
    base: null,
    timestamp: createTimestamp(),
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: describeError },
  };
  return pino(options, destination ?? openLogDestination());
}

/**
 * Returns the time in the format of pino. It is formatted once per millisecond, because a busy
 * server writes many lines in one.
 */
function createTimestamp(): () => string {
  let at = 0;
  let text = '';
  return () => {
    const now = Date.now();
    if (now !== at) {
      at = now;
      text = `,"time":"${new Date(now).toISOString()}"`;
    }
    return text;
  };
}

/**
 * Returns the type, the message and the messages of the causes; the stack only for unexpected
 * errors.
 */
function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: withoutToken(String(error)) };
  const causes: string[] = [];
  for (let cause = error.cause; cause instanceof Error && causes.length < 5; cause = cause.cause) {
    causes.push(withoutToken(cause.message));
  }
  return {
    type: error.name,
    message: withoutToken(error.message),
    ...(causes.length > 0 ? { causes } : {}),
    ...(error.name === 'Fault' ? {} : { stack: error.stack }),
  };
}

/**
 * Returns the text without container tokens, which give access. Removes them in paths and image names, also next to
 * escaped slashes or typing errors. Also removes access tokens and pairing tokens that somebody has put into a path.
 */
export function withoutToken(text: string): string {
  return withoutPairingToken(text.replace(/[a-z2-7]{32,}|sluice_[0-9a-f]{16,}/g, '<token>'));
}

/** Searches read the text once each; a pattern would try every `/pairing/` of a long path. */
function withoutPairingToken(text: string): string {
  const pairing = text.indexOf('/pairing/');
  const token = pairing < 0 ? -1 : text.indexOf('/token/', pairing + '/pairing'.length);
  const end = token + '/token/'.length;
  return token < 0 || end === text.length ? text : `${text.slice(0, end)}<token>`;
}

const idBytes = 6;
// Ids are drawn in bulk: one system call for each would cost a tenth of a manifest's time.
const drawnIds = 512;

/** Makes ids of 12 hex digits that tie a response to its log line. */
export function createRequestIds(): () => string {
  let drawn = Buffer.alloc(0);
  let used = 0;
  return () => {
    if (used >= drawn.length) {
      drawn = randomBytes(idBytes * drawnIds);
      used = 0;
    }
    used += idBytes;
    return drawn.toString('hex', used - idBytes, used);
  };
}

/**
 * Each server has its own registry, so that two servers in one process do not mix their metrics.
 */
export function createMetricsRegistry(): Registry {
  return new Registry();
}
