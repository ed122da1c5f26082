import { setTimeout as sleep } from 'node:timers/promises';
import { get, RefusedError, stream } from './client.ts';
import { CommandError, type Option, type Values } from './command.ts';
import { type ProgressDisplay, progressDisplay } from './progress/display.ts';

/** The option of every command that shows how a build goes on. */
export const plainOption: Option = {
  type: 'boolean',
  description: 'Show the log line by line on a terminal too',
};

/** How a build ended; undefined when its user does not want to see more of it. */
export type BuildEnd = { readonly succeeded: boolean } | undefined;

/** 130 is what a shell says of who was interrupted. */
export function exitCodeOf(end: BuildEnd): number {
  return end === undefined ? 130 : end.succeeded ? 0 : 1;
}

const pauseMs = 1000;

/**
 * Shows how a build goes on until it is over; Ctrl-C leaves it running, and says how to come back. Throws
 * a {@link CommandError} when the server does not answer.
 */
export async function followBuild(
  values: Values,
  id: string,
  sink: NodeJS.WriteStream,
): Promise<BuildEnd> {
  const again = `follow it with 'sluice logs -f ${id}'`;
  const leaving = new AbortController();
  const leave = () => leaving.abort();
  process.once('SIGINT', leave);
  const display = progressDisplay(sink, values.plain === true);
  let end: BuildEnd;
  try {
    end = await showLog(values, id, display, leaving.signal);
  } catch (error) {
    if (error instanceof CommandError && !(error instanceof RefusedError)) {
      throw new CommandError(`${error.message}; ${again}`);
    }
    if (!leaving.signal.aborted) throw error;
  } finally {
    process.off('SIGINT', leave);
    display.end(end?.succeeded);
  }
  if (!end) console.error(`The build goes on: ${again}`);
  return end;
}

/** The log to its end; where the connection breaks, from there on by another one. */
async function showLog(
  values: Values,
  id: string,
  display: ProgressDisplay,
  signal: AbortSignal,
): Promise<{ readonly succeeded: boolean }> {
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
    const { succeeded } = (await get(values, `${path}/status`)) as { succeeded?: boolean };
    if (succeeded !== undefined) return { succeeded };
  }
}
