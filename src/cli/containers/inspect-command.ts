import { type Command, CommandError, text } from '../command.ts';
import { jsonOption, post, serverOption } from '../server/server-client.ts';
import { claimOf, claimOptions } from './caller-options.ts';

interface InspectAnswer {
  readonly container?: {
    readonly hostName: string;
    readonly imageName: string;
    readonly reference: string;
    readonly digest: string;
    readonly config?: {
      readonly os?: string;
      readonly architecture?: string;
      readonly created?: string;
      readonly config: Readonly<Record<string, unknown>>;
    };
    readonly manifest: {
      readonly mediaType: string;
      readonly layers?: readonly { size: number }[];
    };
  };
}

/** `sluice inspect`: shows what an image is. */
export const inspectCommand: Command = {
  summary: 'Show the metadata of an image',
  usage: 'inspect IMAGE [options]',
  options: {
    platform: {
      type: 'string',
      value: 'OS/ARCH|all',
      description: 'linux/amd64 (the default), linux/arm64, or all for the whole index',
    },
    ...claimOptions,
    server: serverOption,
    json: jsonOption,
  },

  async run(values, [image, ...others]) {
    if (image === undefined) throw new CommandError('Name the image: sluice inspect alpine', 2);
    if (others.length > 0) {
      throw new CommandError(`One image can be named, not ${[image, ...others].join(' and ')}`, 2);
    }
    const platform = text(values, 'platform');
    const query = platform === undefined ? '' : `?platform=${encodeURIComponent(platform)}`;
    const answer = (await post(values, `/v1alpha1/inspect${query}`, {
      containerImage: image,
      ...claimOf(values),
    })) as InspectAnswer;
    console.log(
      values.json || !answer.container ? JSON.stringify(answer, null, 2) : table(answer.container),
    );
    return 0;
  },
};

function table(container: NonNullable<InspectAnswer['container']>): string {
  const { config, manifest } = container;
  const runtime = config?.config ?? {};
  const layers = manifest.layers ?? [];
  const bytes = layers.reduce((sum, { size }) => sum + size, 0);
  const rows: [string, unknown][] = [
    ['Image', `${container.imageName} (${container.reference}) at ${container.hostName}`],
    ['Digest', container.digest],
    ['Media type', manifest.mediaType],
    ['Platform', config && [config.os, config.architecture].filter(Boolean).join('/')],
    ['Created', config?.created],
    ['Layers', `${layers.length}, ${bytes} bytes`],
    ['Entrypoint', runtime.entrypoint],
    ['Command', runtime.cmd],
    ['Working dir', runtime.workingDir],
    ['User', runtime.user],
    ...((runtime.env as string[] | undefined) ?? []).map((entry): [string, string] => [
      'Env',
      entry,
    ]),
  ];
  return rows
    .filter(([, value]) => value !== undefined)
    .map(
      ([name, value]) =>
        `${name.padEnd(12)} ${typeof value === 'string' ? value : JSON.stringify(value)}`,
    )
    .join('\n');
}
