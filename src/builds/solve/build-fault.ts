import { BuildError } from '../../buildkit/index.ts';
import { Fault, type FaultKind, type Phase } from '../../foundation/fault.ts';
import { BuilderLost } from '../builder/builder-refusals.ts';
import type { RecipeKind, Source } from '../recipe/recipe-kind.ts';

/** The parts of a recipe kind that explain its failures. */
type FailedRecipe = Pick<RecipeKind<Source>, 'isGenerated' | 'partOf'>;

/**
 * Returns the failure in the user's terms: what happened, where, and what to do about it.
 *
 * @param recipe the kind of the recipe: the lines of a generated Dockerfile are not shown
 */
export function buildFault(error: BuildError, recipe: FailedRecipe): Fault {
  const place = recipe.isGenerated ? '' : placeOf(error);
  const { kind, message } = error;
  const fault = (what: string, phase: Phase = 'build', faultKind: FaultKind = 'bad-request') =>
    new Fault(faultKind, what, { phase, cause: error });
  switch (kind) {
    case 'unavailable':
    case 'session':
      // A request of the builder to this server failed, for a reason of this server.
      if (error.cause instanceof Fault) return error.cause;
      return new BuilderLost(
        'The connection to the builder was lost during the build',
        true,
        error,
      );
    case 'cancelled':
      return fault('it was cancelled', 'build', 'unavailable');
    case 'timeout':
      return fault('it took too long', 'build', 'unavailable');
    case 'exec':
      return fault(failedStep(error, place, recipe));
  }
  // Whatever the builder was doing. Its message names folders of the builder, which callers must not see.
  if (noSpace.test(message)) return fault(fullDisk, 'build', 'storage-full');
  const [, unnamed] = deniedImage.exec(message) ?? [];
  if (unnamed !== undefined) {
    return fault(
      `it takes files from ${unnamed}${place}, which neither the Dockerfile nor its base images named when the build was requested: a base image has changed since, so request the build again`,
    );
  }
  const missed = unreachable(message);
  // Some layers of a base image are fetched when the image is exported.
  const isOfBase = kind === 'base' || (kind === 'push' && missed !== undefined);
  if (isOfBase) return fault(`a base image is unavailable${place}: ${missed ?? message}`);
  if (kind === 'push') return fault(`the builder cannot export the image: ${message}`);
  const explanation = explained(message, place, error.source?.text ?? error.step ?? '');
  if (explanation !== undefined) return fault(explanation);
  if (kind !== 'dockerfile') return fault(message);
  return fault(`the Dockerfile is wrong${place}: ${message.replace(parseError, '')}`);
}

// All images are denied but those of the build, see `replacedImages`.
const deniedImage = /source "docker-image:\/\/([^"]*)" denied by policy/;
// The place already shows the line.
const parseError = /^dockerfile parse error (?:on )?line \d+: /;
const noSpace = /no space left on device/i;
const fullDisk =
  "the builder's disk is full: make the image smaller, or ask the operator to free disk space, and try again";
// The kernel's message about a program for another kind of processor.
const wrongFormat = /exec format error/i;
const otherPlatform =
  "a program for another platform than the builder's, which emulates none: ask for another 'containerPlatform', or ask the operator to install emulation (docker run --privileged --rm tonistiigi/binfmt --install all, or Debian's qemu-user-static)";
const withoutShell = /exec: "\/bin\/sh": stat \/bin\/sh: no such file/;
const otherBase =
  'the base image has no /bin/sh, which runs this step: build from an image that has one';

/** Returns true for the failure of a step that needs a shell, in an image that has none. */
export function lacksShell(error: unknown): boolean {
  if (!(error instanceof Fault) || !(error.cause instanceof BuildError)) return false;
  return error.cause.lastLogLines.some(line => withoutShell.test(line));
}

/** Returns true for the failure of a step whose program is for another platform than the builder runs. */
export function isForOtherPlatform(error: unknown): boolean {
  if (!(error instanceof Fault) || !(error.cause instanceof BuildError)) return false;
  return error.cause.lastLogLines.some(line => wrongFormat.test(line));
}

// Maximum length of a step in a message: a whole script may be one step, or one line.
const maxStepChars = 200;
const maxLineChars = 500;
const lastLines = 5;
/** Separates a reason from the last lines of the failed step. */
export const lastLinesFollow = '. Its last lines:';

/** Returns the message for a RUN whose process failed. */
function failedStep(error: BuildError, place: string, recipe: FailedRecipe): string {
  const { step = 'a step', lastLogLines } = error;
  const part = recipe.partOf(step);
  const end = part
    ? `${part.name} ${endOf(error)}${part.advice}`
    : `'${cut(step, maxStepChars)}' ${endOf(error)}${place}`;
  const reason = likelyReason(lastLogLines);
  const why = reason === undefined ? '' : `; most likely ${reason}`;
  if (lastLogLines.length === 0) return end + why;
  const lines = lastLogLines.slice(-lastLines).map(line => cut(line, maxLineChars));
  return `${end}${why}${lastLinesFollow}\n${lines.join('\n')}`;
}

function likelyReason(lines: readonly string[]): string | undefined {
  if (lines.some(line => noSpace.test(line))) return fullDisk;
  if (lines.some(line => withoutShell.test(line))) return otherBase;
  return lines.some(line => wrongFormat.test(line)) ? otherPlatform : undefined;
}

// Exit code that a shell reports for a child ended by SIGKILL.
const killed = 137;

// The message of contained/runc.sh.
const wroteTooMuch = /^This step was ended: its build has written more than the \d+ (?:MiB|files)/;

function endOf({ exitCode, message, lastLogLines }: BuildError): string {
  if (exitCode === killed && lastLogLines.some(line => wroteTooMuch.test(line))) {
    return 'was ended because it wrote too much: write less, or ask the operator to raise builds.each.disk and builds.builderDisk';
  }
  // With control groups of version 2 the builder reports the reason; with version 1 nothing does.
  if (/did not complete successfully: cannot allocate memory/.test(message)) {
    return 'ran out of memory: use less memory, or ask the operator to raise builds.each.memory';
  }
  if (exitCode === killed) {
    return 'was killed (exit code 137), most likely out of memory: use less memory, or ask the operator to raise builds.each.memory';
  }
  return `ended with exit code ${exitCode ?? 'unknown'}`;
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most)}...` : text;
}

function placeOf({ source }: BuildError): string {
  return source ? ` (${source.file}, line ${source.line})` : '';
}

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

/** A message of BuildKit, and its meaning for the author of the Dockerfile. */
type Explanation = readonly [
  pattern: RegExp,
  explain: (found: RegExpExecArray, place: string, line: string) => string,
];

const closedAddress = 'a loopback, private or otherwise closed network address';

const explanations: readonly Explanation[] = [
  [
    /failed to (?:compute cache key|calculate checksum).*: not found/s,
    ([found], place, line) => {
      const path = /"\/?([^"]*)": not found$/.exec(found)?.[1];
      if (path === undefined) return `a file is missing${place}: ${found}`;
      return /\s--from=/.test(line)
        ? `a file is missing${place}: '/${path}' is not in the stage or image of --from`
        : `a file is missing${place}: '${path}' is not in the build context, whose files come with the request, as its buildContext (sluice build -f Dockerfile DIRECTORY)`;
    },
  ],
  [
    /source "(?:https?|git):\/\/([^"]*)" denied by policy/,
    ([, address = ''], place) =>
      `ADD from ${hostOf(address)} is refused${place}: it is at ${closedAddress}, or a registry. Send the file in the build context, or ask the operator to list the host in builds.privateHosts`,
  ],
  [
    /There is no SSH agent '([^']*)'/,
    ([, id], place) =>
      `the Dockerfile requires an SSH key with the id ${id}${place}: send the private key with the request, in its 'ssh' (sluice build --ssh ${id}=FILE)`,
  ],
  [
    /failed to load cache key: (.*)/s,
    ([, reason = ''], place, line) =>
      `${addressesIn(line) ?? 'what ADD names'} cannot be fetched${place}: ${reason}${/no route to host|host is unreachable/i.test(reason) ? `. It may be at ${closedAddress}, which builds cannot reach` : ''}`,
  ],
  [
    /\bsecret (\S+): not found/,
    ([, name], place) =>
      `the Dockerfile requires the secret ${name}${place}: send it with the request, in its 'secrets' (sluice build --secret id=${name},src=FILE)`,
  ],
  [
    /\bnetwork\.host is not allowed/,
    (_, place) => `RUN --network=host is not allowed here${place}: take the option out`,
  ],
  [
    /\bsecurity\.insecure is not allowed/,
    (_, place) => `RUN --security=insecure is not allowed here${place}: take the option out`,
  ],
];

/** Returns the host of an address without its protocol. */
function hostOf(address: string): string {
  const [authority = ''] = address.split(/[/?#]/, 1);
  return authority.slice(authority.lastIndexOf('@') + 1);
}

/** Returns the addresses in a line of a Dockerfile: BuildKit does not say which of them failed. */
function addressesIn(line: string): string | undefined {
  const found = line.match(/\bhttps?:\/\/[^\s"'\\]+/g) ?? [];
  const all = [...new Set(found)].slice(0, 5).join(' or ');
  return all === '' ? undefined : all.slice(0, 500);
}

/**
 * Returns what a message of BuildKit means and what to do; undefined for a message that is clear enough.
 *
 * @param place position in the Dockerfile, in brackets after a blank; empty if unknown
 * @param line text of that line, or the step that BuildKit made of it
 */
export function explained(message: string, place: string, line: string): string | undefined {
  for (const [pattern, explain] of explanations) {
    const found = pattern.exec(message);
    if (found) return explain(found, place, line);
  }
  return undefined;
}
