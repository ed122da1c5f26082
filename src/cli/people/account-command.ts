import { hashPassword } from '../../hosted/accounts/password-hash.ts';
import { actions, none } from '../action.ts';
import type { Command } from '../command.ts';
import { readPassword } from './password.ts';

/** `sluice account`: what the accounts of the configuration are written with. */
export const accountCommand: Command = {
  summary: 'Print the hash of a password, for accounts in the configuration and htpasswd files',
  usage: 'account hash < FILE',
  options: {},
  ...actions('account', {
    async hash(_, args) {
      none(args, 'account hash < FILE');
      console.log(await hashPassword(await readPassword('sluice account hash')));
    },
  }),
};
