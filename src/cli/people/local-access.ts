import { CommandError, type Values } from '../command/command.ts';
import type { AskPlatform } from './ask-platform.ts';

/** Runs work with the platform in a data directory. */
export type WithLocalPlatform = <T>(
  values: Values,
  work: (ask: AskPlatform) => Promise<T>,
  options: { readonly create: boolean },
) => Promise<T>;

let load: (() => Promise<WithLocalPlatform>) | undefined;

/** Lets commands work on data directories. The package sluice-cli, which has no code for that, does not call this. */
export function allowDataDirectories(loadLocalPlatform: () => Promise<WithLocalPlatform>): void {
  load = loadLocalPlatform;
}

/** Loads the code that works on data directories. Throws a {@link CommandError} when this program has none. */
export async function localPlatform(): Promise<WithLocalPlatform> {
  if (load) return load();
  throw new CommandError(
    'This program cannot work on a data directory: pass --server, or install the package sluice',
    2,
  );
}
