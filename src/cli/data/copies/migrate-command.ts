import { type Command, none, required, UsageError } from '../../command/command.ts';
import { dataOptions, dataVariables, jsonOption } from '../../command/common-options.ts';

const places = 'sqlite:DIRECTORY, sqlite:FILE or postgres://user@host:port/database';

/** `sluice migrate`: moves the rows of a site to PostgreSQL, or its content to a bucket, or back. */
export const migrateCommand: Command = {
  summary:
    'Move the rows of a site from SQLite to PostgreSQL, or its content to a bucket, or back. The server must be stopped',
  usage: ['--from PLACE --to PLACE', '--content-to PLACE'],
  options: {
    from: {
      type: 'string',
      value: 'PLACE',
      description: `Where the rows are: ${places}. DIRECTORY is the data directory`,
    },
    to: {
      type: 'string',
      value: 'PLACE',
      description:
        'Where the rows go: an empty database. One of --from and --to must be SQLite, the other PostgreSQL',
    },
    'content-to': {
      type: 'string',
      value: 'PLACE',
      description:
        'Where the content goes: s3://bucket/prefix or directory. It comes from where SLUICE_CONTENT says',
    },
    ...dataOptions,
    json: jsonOption,
  },
  variables: {
    ...dataVariables,
    'SLUICE_S3_...': 'How the bucket is reached, as for the server',
    PGPASSWORD: 'Password for PostgreSQL. In a place, other users of the host can read it',
  },
  exits: {
    0: 'All rows are in the new place. Their number and checksums are equal on both sides. Or all content is there',
    1: 'The command failed, and the message says why: no row was moved. Or content was damaged, and was not moved',
  },

  async run(values, args) {
    none(args);
    const place = values['content-to'];
    if (typeof place === 'string') {
      if (values.from !== undefined || values.to !== undefined) {
        throw new UsageError(
          '--content-to moves content, and --from with --to moves rows: use one',
        );
      }
      return (await import('./run-move-content.ts')).runMoveContent(values, place);
    }
    const from = required(values, 'from', 'PLACE');
    const to = required(values, 'to', 'PLACE');
    return (await import('./run-migrate.ts')).runMigrate(values, from, to);
  },
};
