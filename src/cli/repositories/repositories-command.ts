import {
  type Command,
  CommandError,
  type CommandGroup,
  none,
  only,
  type Values,
} from '../command/command.ts';
import { jsonOption, serverOption, serverVariables } from '../command/common-options.ts';
import { print, table } from '../command/output.ts';
import { askRegistry, listPages, splitName } from './hosted-client.ts';

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
      summary: 'List the repositories that you may pull',
      usage: [''],
      async run(values, args) {
        none(args);
        const repositories = await listPages(values, '/v2/_catalog', 'repositories');
        const rows = repositories.map(name => [name]);
        print(values, { repositories }, table(['repository'], rows));
        return 0;
      },
    },

    tags: {
      ...common,
      summary: 'List the tags of a repository and their digests',
      usage: ['REPOSITORY'],
      async run(values, args) {
        const repository = only(args, 'REPOSITORY');
        const names = await listPages(values, `/v2/${repository}/tags/list`, 'tags');
        const tags = [];
        for (const name of names) {
          tags.push({ name, digest: await digestOf(values, repository, name) });
        }
        const rows = tags.map(({ name, digest }) => [name, digest]);
        print(values, { repository, tags }, table(['tag', 'digest'], rows));
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

async function digestOf(values: Values, repository: string, tag: string): Promise<string> {
  const { headers } = await askRegistry(values, `/v2/${repository}/manifests/${tag}`, 'HEAD');
  const digest = headers.get('docker-content-digest');
  if (digest !== null) return digest;
  throw new CommandError(`The server reports no digest for ${repository}:${tag}`);
}
