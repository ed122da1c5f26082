import { terminalLine } from '../../foundation/text.ts';
import { supportedPlatforms } from '../../oci/naming.ts';
import {
  type Command,
  jsonOption,
  only,
  print,
  serverOption,
  serverVariables,
  table,
  text,
  tokenVariable,
  UsageError,
  type Values,
} from '../command/command.ts';
import { claimOf, claimOptions, post } from '../server-client.ts';

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
        : summaryOfImage(response.container),
    );
    return 0;
  },
};

function summaryOfImage(container: NonNullable<InspectResponse['container']>): string {
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

interface LayerFile {
  readonly path: string;
  readonly kind: string;
  readonly change?: string;
  readonly bytes: number;
  readonly mode?: string;
  readonly uid?: number;
  readonly gid?: number;
  readonly target?: string;
}

interface FilesResponse {
  readonly digest: string;
  readonly number: number;
  readonly layers: number;
  readonly state: 'reading' | 'complete' | 'incomplete';
  readonly reason?: string;
  readonly bytes?: number;
  readonly count?: number;
  readonly page?: number;
  readonly pages?: number;
  readonly files: readonly LayerFile[];
  readonly waste?: { readonly image: { readonly bytes: number; readonly wastedBytes: number } };
}

const waitSeconds = 20;
const filters = ['platform', 'layer', 'path', 'name', 'change', 'sort', 'page'] as const;
const changes = ['added', 'changed', 'attributes', 'again', 'removed'];

/** `sluice files`: shows what is in a layer of an image. */
export const filesCommand: Command = {
  summary: 'Show the files of a layer of an image, and what they change',
  usage: ['IMAGE'],
  options: {
    layer: {
      type: 'string',
      value: 'NUMBER|DIGEST',
      description: 'Layer to show, counted from 1 for the lowest. Default: the highest',
    },
    path: {
      type: 'string',
      value: 'DIRECTORY',
      description: 'Directory of the layer. Default: the root',
    },
    name: {
      type: 'string',
      value: 'TEXT',
      description: 'Show files anywhere in the layer whose name contains the text',
    },
    change: {
      type: 'string',
      value: changes.join('|'),
      completes: changes,
      description: 'Show files anywhere in the layer with this change of the layers below',
    },
    sort: {
      type: 'string',
      value: 'size|name',
      completes: ['size', 'name'],
      description: 'Order of the files. Default: size, the largest first',
    },
    page: { type: 'string', value: 'NUMBER', description: 'Page of 100 files. Default: 1' },
    platform: {
      type: 'string',
      value: 'OS/ARCH',
      completes: supportedPlatforms,
      description: 'Platform of the image. Default: linux/amd64',
    },
    ...claimOptions,
    server: serverOption,
    json: jsonOption,
  },
  variables: { ...serverVariables, ...tokenVariable },

  async run(values, args) {
    const response = await wholeListing(values, only(args, 'IMAGE'));
    print(values, response, [
      ...table(filesHead, response.files.map(filesCells)),
      ...summaryOfFiles(response),
    ]);
    return response.state === 'complete' ? 0 : 1;
  },
};

/** Returns the response when no layer is being read any more. */
async function wholeListing(values: Values, image: string): Promise<FilesResponse> {
  const query = new URLSearchParams({ wait: String(waitSeconds) });
  for (const name of filters) {
    const value = text(values, name);
    if (value !== undefined) query.set(name, value);
  }
  const body = { containerImage: image, ...(await claimOf(values)) };
  for (;;) {
    const response = (await post(
      values,
      `/v1alpha1/inspect/files?${query}`,
      body,
    )) as FilesResponse;
    if (response.state !== 'reading') return response;
    process.stderr.write(`The server reads the ${response.layers} layers of the image ...\n`);
  }
}

const filesHead = ['change', 'mode', 'owner', 'bytes', 'path'];

function filesCells({ change = '-', mode = '-', uid, gid, bytes, ...file }: LayerFile): string[] {
  const owner = uid === undefined ? '-' : `${uid}:${gid}`;
  const path = file.kind === 'directory' ? `${file.path}/` : file.path;
  const target = file.target === undefined ? '' : ` -> ${file.target}`;
  return [change, mode, owner, String(bytes), path + target];
}

function summaryOfFiles(response: FilesResponse): string[] {
  const { number, layers, digest, bytes, count, page, pages, reason, waste } = response;
  return [
    '',
    `Layer ${number} of ${layers}: ${digest}${bytes === undefined ? '' : `, ${bytes} bytes`}`,
    ...(pages !== undefined && pages > 1 ? [`Page ${page} of ${pages}, ${count} files`] : []),
    ...(waste
      ? [`The image wastes ${waste.image.wastedBytes} of its ${waste.image.bytes} bytes`]
      : []),
    ...(reason === undefined ? [] : [terminalLine(reason)]),
  ];
}
