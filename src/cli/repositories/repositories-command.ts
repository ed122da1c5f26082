import { type Command, type CommandGroup, none, only } from '../command/command.ts';
import { jsonOption, serverOption, serverVariables } from '../command/common-options.ts';
import { print, table } from '../command/output.ts';
import { askRegistry, listAll, splitName } from './hosted-client.ts';

const common: Pick<Command, 'options' | 'variables'> = {
  options: { server: serverOption, json: jsonOption },
  variables: {
    ...serverVariables,
    SLUICE_ACCOUNT: 'Account of the server, as name:password. Default: no login',
  },
};

/** `sluice repositories`: the repositories that a server hosts. */
export const repositoriesCommand: CommandGroup = {
  summary: 'List the repositories that a server hosts and their tags, and delete images',
  actions: {
    list: {
      ...common,
      summary: 'List the repositories that you may pull, with sizes and pulls',
      usage: [''],
      async run(values, args) {
        none(args);
        const repositories = await listAll<RepositoryEntry>(values, '', 'repositories');
        const rows = repositories.map(({ name, bytes, ...pulls }) => [
          ...[name, String(bytes)],
          ...pullCells(pulls),
        ]);
        print(values, { repositories }, table(['repository', 'bytes', ...pullHead], rows));
        return 0;
      },
    },

    tags: {
      ...common,
      summary: 'List the tags of a repository with digests, sizes and pulls',
      usage: ['REPOSITORY'],
      async run(values, args) {
        const repository = only(args, 'REPOSITORY');
        const query = `/tags?repository=${encodeURIComponent(repository)}`;
        const tags = await listAll<TagEntry>(values, query, 'tags');
        const rows = tags.map(({ tag, ...image }) => [tag, ...imageCells(image)]);
        print(values, { repository, tags }, table(['tag', ...imageHead], rows));
        return 0;
      },
    },

    untagged: {
      ...common,
      summary: 'List the images of a repository that no tag names, if you may delete them',
      usage: ['REPOSITORY'],
      async run(values, args) {
        const repository = only(args, 'REPOSITORY');
        const query = `/untagged?repository=${encodeURIComponent(repository)}`;
        const images = await listAll<ImageEntry>(values, query, 'images');
        const rows = images.map(image => imageCells(image));
        print(values, { repository, images }, table(imageHead, rows));
        return 0;
      },
    },

    delete: {
      ...common,
      summary: 'Delete a tag, or an image by its digest with all its tags',
      usage: ['REPOSITORY:TAG', 'REPOSITORY@DIGEST'],
      async run(values, args) {
        const name = only(args, 'REPOSITORY:TAG or REPOSITORY@DIGEST');
        const { repository, reference } = splitName(name);
        await askRegistry(values, `/v2/${repository}/manifests/${reference}`, 'DELETE');
        const result = { deleted: { repository, reference } };
        print(values, result, `Deleted ${name}. The server removes unreferenced content later`);
        return 0;
      },
    },
  },
};

interface Pulls {
  readonly recentPulls: number;
  readonly lastPulledAt?: string;
}

interface RepositoryEntry extends Pulls {
  readonly name: string;
  readonly bytes: number;
}

interface ImageEntry extends Pulls {
  readonly digest: string;
  readonly bytes?: number;
}

interface TagEntry extends ImageEntry {
  readonly tag: string;
}

const pullHead = ['pulls in 30 days', 'last pull'];
const imageHead = ['digest', 'bytes', ...pullHead];

function imageCells({ digest, bytes, ...pulls }: ImageEntry): string[] {
  return [digest, bytes === undefined ? '-' : String(bytes), ...pullCells(pulls)];
}

function pullCells({ recentPulls, lastPulledAt = '-' }: Pulls): string[] {
  return [String(recentPulls), lastPulledAt];
}
