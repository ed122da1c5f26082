import { terminalLine } from '../../foundation/text/terminal-text.ts';
import { supportedPlatforms } from '../../oci/naming.ts';
import { type Command, text, UsageError } from '../command/command.ts';
import {
  jsonOption,
  serverOption,
  serverVariables,
  tokenVariable,
} from '../command/common-options.ts';
import { post } from '../server/server-client.ts';
import { claimOf, claimOptions } from './caller-options.ts';

interface InspectResponse {
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

/** `sluice inspect`: shows the metadata of an image. */
export const inspectCommand: Command = {
  summary: 'Show the metadata of an image',
  usage: ['IMAGE'],
  options: {
    platform: {
      type: 'string',
      value: 'OS/ARCH|all',
      completes: [...supportedPlatforms, 'all'],
      description: 'Platform to show; all shows the whole index. Default: linux/amd64',
    },
    ...claimOptions,
    server: serverOption,
    json: jsonOption,
  },
  variables: { ...serverVariables, ...tokenVariable },

  async run(values, [image, ...others]) {
    if (image === undefined) throw new UsageError('Missing argument: IMAGE');
    if (others.length > 0) {
      throw new UsageError(`Expected one image, got ${[image, ...others].join(' and ')}`);
    }
    const platform = text(values, 'platform');
    const query = platform === undefined ? '' : `?platform=${encodeURIComponent(platform)}`;
    const response = (await post(values, `/v1alpha1/inspect${query}`, {
      containerImage: image,
      ...(await claimOf(values)),
    })) as InspectResponse;
    console.log(
      values.json || !response.container
        ? JSON.stringify(response, null, 2)
        : summary(response.container),
    );
    return 0;
  },
};

function summary(container: NonNullable<InspectResponse['container']>): string {
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
        `${name.padEnd(12)} ${terminalLine(typeof value === 'string' ? value : JSON.stringify(value))}`,
    )
    .join('\n');
}
