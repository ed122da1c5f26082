import { createInterface } from 'node:readline/promises';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { terminalLines } from '../../foundation/text.ts';
import {
  type Command,
  CommandError,
  followExits,
  jsonOption,
  type Option,
  only,
  print,
  serverOption,
  serverVariables,
  tokenVariable,
  type Values,
} from '../command/command.ts';
import { type BuildResult, type ProgressDisplay, progressDisplay } from '../progress/display.ts';
import { get, RefusedError, remove, serverAddress, stream } from '../server-client.ts';

/** The option of every command that follows a build. */
export const plainOption: Option = {
  type: 'boolean',
  description: 'Show the log line by line, also on a terminal',
};

/** How a build ended; undefined when the user stopped following it. */
type BuildEnd = BuildResult | undefined;

/** Returns the exit code; 130 is the shell's code for an interrupted command. */
export function exitCodeOf(end: BuildEnd): number {
  return end === undefined ? 130 : end.succeeded ? 0 : 1;
}

const pauseMs = 1000;

/**
 * Shows the progress of a build until it ends, or until Ctrl-C. On a terminal, Ctrl-C also asks whether to cancel the
 * build. Throws a {@link CommandError} when the server does not answer.
 *
 * @param beganMs since when the user waits
 */
export async function followBuild(
  values: Values,
  id: string,
  sink: NodeJS.WriteStream,
  beganMs?: number,
): Promise<BuildEnd> {
  const again = `To follow the build: sluice logs -f ${id}`;
  const leaving = new AbortController();
  const leave = () => leaving.abort();
  process.once('SIGINT', leave);
  if (sink.isTTY) sink.write(`Page of the build: ${pageOf(values, id)}\n`);
  const display = progressDisplay(sink, values.plain === true, beganMs);
  let end: BuildEnd;
  try {
    end = await showLog(values, id, display, leaving.signal);
  } catch (error) {
    if (error instanceof CommandError && !(error instanceof RefusedError)) {
      throw new CommandError(`${error.message}. ${again}`);
    }
    if (!leaving.signal.aborted) throw error;
  } finally {
    process.off('SIGINT', leave);
    display.end(end);
  }
  if (end) return end;
  const isCancelled = (await isToBeCancelled()) && (await tryToCancel(values, id));
  if (!isCancelled) console.error(`The build continues. ${again}`);
  return undefined;
}

function pageOf(values: Values, id: string): string {
  return `${serverAddress(values).replace(/\/$/, '')}/view/builds/${encodeURIComponent(id)}`;
}

/** Asks the user on a terminal; false without a terminal. */
async function isToBeCancelled(): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return false;
  const prompt = createInterface({ input: process.stdin, output: process.stderr });
  const leaving = new AbortController();
  // Another Ctrl-C, or the end of the input, means no.
  prompt.once('SIGINT', () => leaving.abort());
  prompt.once('close', () => leaving.abort());
  try {
    const { signal } = leaving;
    return /^y(es)?$/i.test((await prompt.question('Cancel the build? [y/N] ', { signal })).trim());
  } catch (error) {
    if (!leaving.signal.aborted) throw error;
    console.error();
    return false;
  } finally {
    prompt.close();
  }
}

async function tryToCancel(values: Values, id: string): Promise<boolean> {
  try {
    const { cancelled, message } = await cancelBuild(values, id);
    console.error(terminalLines(message));
    return cancelled;
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    console.error(error.message);
    return false;
  }
}

/** Shows the log to its end. When the connection breaks, another one resumes it. */
async function showLog(
  values: Values,
  id: string,
  display: ProgressDisplay,
  signal: AbortSignal,
): Promise<BuildResult> {
  const path = `/v1alpha1/builds/${encodeURIComponent(id)}`;
  for (let seen = 0; ; await sleep(pauseMs, undefined, { signal })) {
    let position = 0;
    try {
      for await (const piece of await stream(values, `${path}/logs?follow=true`, signal)) {
        position += piece.length;
        const isNew = Math.min(piece.length, Math.max(0, position - seen));
        if (isNew > 0) display.write(piece.subarray(piece.length - isNew));
        seen = Math.max(seen, position);
      }
    } catch (error) {
      if (error instanceof CommandError || signal.aborted) throw error;
    }
    const status = (await get(values, `${path}/status`)) as Partial<BuildResult>;
    const { succeeded, duration } = status;
    if (succeeded !== undefined) return { succeeded, ...(duration !== undefined && { duration }) };
  }
}

/** `sluice logs`: prints the log of a build. */
export const logsCommand: Command = {
  summary: 'Print the log of a build',
  usage: ['BUILD-ID'],
  options: {
    follow: {
      type: 'boolean',
      short: 'f',
      description: 'Follow the log until the build ends. Exit code 1 if the build failed',
    },
    plain: plainOption,
    server: serverOption,
    json: { ...jsonOption, description: 'Print the state of the build and its log as JSON' },
  },
  variables: serverVariables,
  exits: followExits,

  async run(values, args) {
    const id = only(args, 'BUILD-ID');
    if (values.json) return printJson(values, id);
    if (values.follow) return exitCodeOf(await followBuild(values, id, process.stdout));
    for await (const piece of await stream(values, `${pathOf(id)}/logs`)) {
      process.stdout.write(piece);
    }
    return 0;
  },
};

/** Prints one JSON document; with `--follow` after the build. */
async function printJson(values: Values, id: string): Promise<number> {
  const query = values.follow ? '?follow=true' : '';
  const log = await buffer(await stream(values, `${pathOf(id)}/logs${query}`));
  const status = (await get(values, `${pathOf(id)}/status`)) as { succeeded?: boolean };
  print(values, { ...status, log: log.toString() }, []);
  return values.follow && !status.succeeded ? 1 : 0;
}

function pathOf(id: string): string {
  return `/v1alpha1/builds/${encodeURIComponent(id)}`;
}

/** The server's response to a cancellation. */
interface CancelResponse {
  readonly cancelled: boolean;
  readonly message: string;
}

/** `sluice cancel`: cancels a build that the caller requested. */
export const cancelCommand: Command = {
  summary: 'Cancel a build that you requested',
  usage: ['BUILD-ID'],
  options: { server: serverOption, json: jsonOption },
  variables: { ...serverVariables, ...tokenVariable },
  exits: { 1: 'The build was not cancelled. The message says why' },

  async run(values, args) {
    const id = only(args, 'BUILD-ID');
    const response = await cancelBuild(values, id);
    print(values, response, response.message);
    return response.cancelled ? 0 : 1;
  },
};

/** Asks the server to cancel a build, as the user of `SLUICE_TOKEN`. Throws `CommandError`. */
export async function cancelBuild(values: Values, id: string): Promise<CancelResponse> {
  return (await remove(values, `/v1alpha1/builds/${encodeURIComponent(id)}`)) as CancelResponse;
}
