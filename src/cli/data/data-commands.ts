import { resolve } from 'node:path';
import {
  type Command,
  dataOptions,
  dataVariables,
  jsonOption,
  none,
  only,
  required,
  UsageError,
} from '../command/command.ts';

/** `sluice gc`: removes unreferenced content. */
export const gcCommand: Command = {
  summary: 'Remove content that no repository, container token or cache refers to',
  usage: [''],
  options: {
    'dry-run': { type: 'boolean', description: 'Report what would be removed; remove nothing' },
    compact: {
      type: 'boolean',
      description: 'Also rewrite the database without its free space. The server must be stopped',
    },
    'trust-clock': {
      type: 'boolean',
      description: 'Remove content even after the clock has jumped ahead',
    },
    ...dataOptions,
    json: jsonOption,
  },
  variables: dataVariables,

  async run(values, args) {
    none(args);
    return (await import('./run-gc.ts')).runGc(values);
  },
};

/** `sluice verify`: reads all content and checks its digests. */
export const verifyCommand: Command = {
  summary: 'Read all content and report what is damaged or missing',
  usage: [''],
  options: {
    'remove-damaged': {
      type: 'boolean',
      description: 'Remove damaged content. The next push or pull restores it',
    },
    'adopt-content': {
      type: 'boolean',
      description:
        'Use the content directory with this database, although content is missing or belongs to another database',
    },
    ...dataOptions,
    json: jsonOption,
  },
  variables: dataVariables,
  exits: { 1: 'The command failed, or found damaged or missing content' },

  async run(values, args) {
    none(args);
    return (await import('./run-copies.ts')).runVerify(values);
  },
};

/** `sluice backup`: copies the data directory. */
export const backupCommand: Command = {
  summary: 'Copy the data directory into another directory. The server may run meanwhile',
  usage: ['DIRECTORY'],
  completes: 'directory',
  options: {
    'with-secrets-key': {
      type: 'boolean',
      description:
        'Also copy secrets.key. A person who has the backup can then read the stored passwords',
    },
    check: {
      type: 'boolean',
      description: 'Also verify the content of an existing backup and replace damaged files',
    },
    ...dataOptions,
    json: jsonOption,
  },
  variables: dataVariables,
  exits: { 1: 'The command failed, or found damaged content' },

  async run(values, args) {
    const directory = resolve(only(args, 'DIRECTORY'));
    return (await import('./run-copies.ts')).runBackup(values, directory);
  },
};

/** `sluice restore`: makes a data directory from a backup. */
export const restoreCommand: Command = {
  summary: 'Make a new data directory from the backup in a directory',
  usage: ['DIRECTORY'],
  completes: 'directory',
  options: { ...dataOptions, json: jsonOption },
  variables: dataVariables,
  exits: { 1: 'The command failed, or the backup has damaged or missing content' },

  async run(values, args) {
    const directory = resolve(only(args, 'DIRECTORY'));
    return (await import('./run-copies.ts')).runRestore(values, directory);
  },
};

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
      return (await import('./run-copies.ts')).runMoveContent(values, place);
    }
    const from = required(values, 'from', 'PLACE');
    const to = required(values, 'to', 'PLACE');
    return (await import('./run-migrate.ts')).runMigrate(values, from, to);
  },
};

/** `sluice rotate-key`: replaces the key of the secrets in the database. */
export const rotateKeyCommand: Command = {
  summary: 'Encrypt all stored secrets with a new key. The server must be stopped',
  usage: [''],
  options: {
    'remove-previous': {
      type: 'boolean',
      description: 'Remove secrets.key.previous once no container request requires it',
    },
    ...dataOptions,
    json: jsonOption,
  },
  variables: dataVariables,

  async run(values, args) {
    none(args);
    return (await import('./run-rotate-key.ts')).runRotateKey(values);
  },
};
