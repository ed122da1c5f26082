import { sealAgain } from '../../platform/seal-again.ts';
import { lockData } from '../../storage/directory/data-lock.ts';
import { openSealedRows } from '../../storage/rows/secrets/sealed-rows.ts';
import {
  hasPreviousKey,
  openSecretBox,
  removePreviousKey,
  renewKey,
} from '../../storage/rows/secrets/secret-keys.ts';
import { none } from '../action.ts';
import { type Command, CommandError } from '../command.ts';
import { dataOptions, withLocalData } from './data.ts';
import { noteLocally } from './operator.ts';

const usage = 'rotate-key [--remove-previous] [options]';

/** `sluice rotate-key`: a new key for the secrets in the database. */
export const rotateKeyCommand: Command = {
  summary: 'Encrypt all stored secrets with a new key; the server must be stopped',
  usage,
  options: {
    'remove-previous': {
      type: 'boolean',
      description: 'Remove secrets.key.previous, when nothing needs it any more',
    },
    ...dataOptions,
  },

  async run(values, args) {
    none(args, usage);
    const isRemoval = values['remove-previous'] === true;
    await withLocalData(values, async ({ config: { data }, database }) => {
      using _lock = await lockData(data, () =>
        console.error('A server uses the data directory: stop it, so that its key can be changed'),
      );
      if (isRemoval && !hasPreviousKey(data)) {
        throw new CommandError(`There is no previous key in ${data}`);
      }
      const isNew = !isRemoval && renewKey(data);
      if (isNew) await noteLocally(database, 'key.rotate', 'secrets.key');
      else if (!isRemoval) console.log('Going on with the key that an earlier run has made.');
      const box = openSecretBox(data);
      const rows = openSealedRows(database);
      const { sealed, unreadable } = await sealAgain(rows, box);
      // Before the key goes, what it opened has to be on the disk.
      await database.settle();
      console.log(`${sealed} secrets are encrypted with the new key.`);
      if (unreadable > 0) console.log(`${unreadable} secrets cannot be opened with any key.`);
      const { count, lastEnd } = rows.requestsOfOthers(box.prefix, Date.now());
      if (isRemoval && count === 0) {
        removePreviousKey(data);
        await noteLocally(database, 'key.remove', 'secrets.key.previous');
        console.log('Removed secrets.key.previous.');
        return;
      }
      const needed = `${count} container requests need the previous key, until ${new Date(lastEnd ?? 0).toISOString()}`;
      if (isRemoval) throw new CommandError(`${needed}: it was not removed`);
      const removal = 'sluice rotate-key --remove-previous';
      console.log(
        count === 0
          ? `Nothing needs the previous key any more: ${removal}`
          : `${needed}. Remove it then: ${removal}`,
      );
      console.log('Back up secrets.key now, apart from sluice.db.');
    });
    return 0;
  },
};
