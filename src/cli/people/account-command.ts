import { type CommandGroup, jsonOption, none, print, readPassword } from '../command/command.ts';

/** `sluice account`: helps to write the accounts of the configuration. */
export const accountCommand: CommandGroup = {
  summary: 'Hash passwords for the accounts in the configuration',
  actions: {
    hash: {
      summary: 'Print the hash of the password on standard input',
      usage: ['< FILE'],
      options: { json: jsonOption },
      async run(values, args) {
        none(args);
        const { hashPassword } = await import('../../hosted/accounts/password-hash.ts');
        const hash = await hashPassword(await readPassword('sluice account hash'));
        print(values, { hash }, hash);
        return 0;
      },
    },
  },
};
