import type { BuildError } from '../buildkit/index.ts';
import { Fault, type FaultKind, type Phase } from '../fault.ts';
import { BuilderLost } from './builders.ts';

/** The failure as its user is told it: what happened, where, and what can be done about it. */
export function buildFault(error: BuildError): Fault {
  const { kind, message } = error;
  const fault = (what: string, phase: Phase = 'build', faultKind: FaultKind = 'bad-request') =>
    new Fault(faultKind, what, { phase, cause: error });
  switch (kind) {
    case 'unavailable':
    case 'session':
      // What it asked could not be answered: the reason is one of ours.
      if (error.cause instanceof Fault) return error.cause;
      return new BuilderLost('The builder went away in the middle of the build', true, error);
    case 'cancelled':
      return fault('it was cancelled', 'build', 'unavailable');
    case 'timeout':
      return fault('it took too long', 'build', 'unavailable');
    case 'exec':
      return fault(failedStep(error));
  }
  // Whatever it was doing: what it says names folders of the builder, which are nobody's business.
  if (noSpace.test(message)) return fault(fullDisk, 'build', 'storage-full');
  const [, unnamed] = deniedImage.exec(message) ?? [];
  if (unnamed !== undefined) {
    return fault(
      `${unnamed} is taken from${placeOf(error)}, which the Dockerfile does not name itself, most likely by ONBUILD of a base image: name it too, in a COPY --from`,
    );
  }
  if (kind === 'push') return fault(`the image cannot be pushed: ${message}`, 'push');
  if (kind === 'base') return fault(`a base image cannot be had${placeOf(error)}: ${message}`);
  if (missingFile.test(message)) {
    return fault(
      `a file is missing${placeOf(error)}: ${message}; files for COPY and ADD come with the request, as its buildContext (sluice build -f Dockerfile DIRECTORY)`,
    );
  }
  if (kind === 'dockerfile') return fault(`the Dockerfile is wrong${placeOf(error)}: ${message}`);
  return fault(message);
}

// What was not asked for is not to be had, see `allowedImages`.
const deniedImage = /source "docker-image:\/\/([^"]*)" denied by policy/;
const missingFile = /failed to (?:compute cache key|calculate checksum).*: not found/s;
const lastLines = 5;
const noSpace = /no space left on device/i;
const fullDisk =
  "the builder's disk is full: make the image smaller, or have the operator make room, and try again";

/** A RUN whose process did not end well. */
function failedStep(error: BuildError): string {
  const { step = 'a step', lastLogLines } = error;
  const end = `'${step}' ${endOf(error)}${placeOf(error)}`;
  const why = lastLogLines.some(line => noSpace.test(line)) ? `; most likely ${fullDisk}` : '';
  const tail = lastLogLines.length > 0 ? `. ${lastLogLines.slice(-lastLines).join('\n')}` : '';
  return `${end}${why}${tail}`;
}

// What a shell tells of a child that SIGKILL ended.
const killed = 137;

function endOf({ exitCode, message }: BuildError): string {
  // With control groups of version 2 the builder knows; with those before nobody tells it.
  if (/did not complete successfully: cannot allocate memory/.test(message)) {
    return 'ran out of memory: have it use less, or the operator give the builder more';
  }
  if (exitCode === killed) {
    return 'was killed (exit code 137), most likely out of memory: have it use less, or the operator give the builder more';
  }
  return `ended with exit code ${exitCode ?? 'unknown'}`;
}

function placeOf({ source }: BuildError): string {
  return source ? ` (${source.file}, line ${source.line})` : '';
}
