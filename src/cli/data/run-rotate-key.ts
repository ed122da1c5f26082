import { sealAgain } from '../../platform/seal-again.ts';
import { keyDirectory } from '../../server/config/index.ts';
import { lockData } from '../../storage/directory/index.ts';
import {
  hasPreviousKey,
  openSecretBox,
  type Rows,
  removePreviousKey,
  renewKey,
} from '../../storage/rows/index.ts';
import { CommandError, print, type Values } from '../command/command.ts';
import { noteLocally, withLocalData } from './local-data.ts';

/** Result of a rotation. */
interface Rotation {
  readonly sealed: number;
  readonly unreadable: number;
  /** Container requests that still require the previous key. */
  readonly requests: number;
  /** When the last of them expires. */
  readonly neededUntil: string | undefined;
  readonly removedPrevious: boolean;
}

/**
 * Encrypts the secrets with a new key, or removes the previous one, and prints the result. Returns the exit code. Throws
 * {@link CommandError}.
 */
export async function runRotateKey(values: Values): Promise<number> {
  const isRemoval = values['remove-previous'] === true;
  const rotation = await withLocalData(
    values,
    async ({ config, rows }) => {
      using _lock = await lockData(config.data, () =>
        console.error('A server uses the data directory. Stop it to change the key'),
      );
      // The lock is held until it ends.
      return await rotate(keyDirectory(config), rows, isRemoval);
    },
    { isAlone: true },
  );
  print(values, rotation, linesOf(rotation));
  return 0;
}

async function rotate(data: string, rows: Rows, isRemoval: boolean): Promise<Rotation> {
  if (isRemoval && !hasPreviousKey(data)) {
    throw new CommandError(`${data} contains no previous key`);
  }
  if (!isRemoval) {
    if (renewKey(data)) await noteLocally(rows, 'key.rotate', 'secrets.key');
    else console.error('An earlier run made the new key and did not finish. Continuing with it');
  }
  const box = openSecretBox(data);
  const { sealed, unreadable } = await sealAgain(rows.sealed, box);
  // The secrets with the new key must be on the disk before the old key is removed.
  await rows.settle();
  const { count, lastEnd } = await rows.sealed.requestsOfOthers(box.prefix, Date.now());
  const neededUntil = count === 0 ? undefined : new Date(lastEnd ?? 0).toISOString();
  if (isRemoval && neededUntil !== undefined) {
    throw new CommandError(
      `The previous key was not removed: ${count} container requests require it until ${neededUntil}`,
    );
  }
  if (isRemoval) {
    removePreviousKey(data);
    await noteLocally(rows, 'key.remove', 'secrets.key.previous');
  }
  return { sealed, unreadable, requests: count, neededUntil, removedPrevious: isRemoval };
}

function linesOf(rotation: Rotation): string[] {
  const { sealed, unreadable, requests, neededUntil, removedPrevious } = rotation;
  const removal = 'sluice rotate-key --remove-previous';
  return [
    `Encrypted ${sealed} secrets with the new key.`,
    ...(unreadable > 0 ? [`No key opens ${unreadable} secrets.`] : []),
    ...(removedPrevious
      ? ['Removed secrets.key.previous.']
      : [
          neededUntil === undefined
            ? `Nothing requires the previous key. To remove it: ${removal}`
            : `${requests} container requests require the previous key until ${neededUntil}. To remove it then: ${removal}`,
          'Back up secrets.key now, separately from the database.',
        ]),
  ];
}
