import { type Command, none, required } from '../../command/command.ts';
import { jsonOption } from '../../command/common-options.ts';

const places = 'sqlite:DIRECTORY, sqlite:FILE or postgres://user@host:port/database';

/** `sluice migrate`: moves the rows of a site to PostgreSQL, or back. */
export const migrateCommand: Command = {
  summary: 'Move the rows of a site from SQLite to PostgreSQL, or back. The server must be stopped',
  usage: ['--from PLACE --to PLACE'],
  options: {
    from: {
      type: 'string',
      value: 'PLACE',
      description: `Where the rows are: ${places}. DIRECTORY is the data directory`,
    },
    to: {
      type: 'string',
      value: 'PLACE',
      description: 'Where the rows go, which has none yet. One of both places is SQLite',
    },
    json: jsonOption,
  },
  variables: {
    PGPASSWORD: 'Password for PostgreSQL. In a place, other users of the host can read it',
  },
  exits: {
    0: 'All rows are in the new place. Their number and checksums are equal on both sides',
    1: 'The command failed. No row was moved. The message says why',
  },

  async run(values, args) {
    none(args);
    const from = required(values, 'from', 'PLACE');
    const to = required(values, 'to', 'PLACE');
    return (await import('./run-migrate.ts')).runMigrate(values, from, to);
  },
};
