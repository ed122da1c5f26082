import { Fault } from '../../../foundation/fault.ts';

// The words of BuildKit's resolver and of containerd's fetcher: the response was 5xx or 404, or did not arrive
// completely. Base images were verified before, and come from this server. With 404 their token is unknown: it is in
// the memory of the leader that runs the build, and a replica that led before and does not know that yet was asked.
const fetchFailed =
  /failed to resolve source metadata for |failed to copy: httpReadSeeker: failed open: /;
const connectionLost = /(?:\bEOF|reset by peer|refused|: not found|: 5\d\d [A-Z][\w ]*)$/;

/** Returns the failure to get a verified base image from this server as one of its storage: the build can be repeated. */
export function asBaseLost(error: unknown): unknown {
  if (!(error instanceof Fault) || !fetchFailed.test(error.message)) return error;
  if (!connectionLost.test(error.message)) return error;
  return new Fault('unavailable', error.message, { phase: 'store', cause: error });
}
