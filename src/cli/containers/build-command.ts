import { supportedPlatforms } from '../../oci/naming.ts';
import type { Submission } from '../../request/index.ts';
import {
  type Command,
  followExits,
  serverOption,
  serverVariables,
  text,
  tokenVariable,
  UsageError,
  type Values,
} from '../command/command.ts';
import {
  claimOf,
  claimOptions,
  ownMachine,
  RefusedError,
  serverAddress,
} from '../server-client.ts';
import {
  type ImageResponse,
  imageOptions,
  printImage,
  requestContainer,
} from './request-container.ts';
import {
  type BuildRequest,
  buildRequestOf,
  contentOf,
  sourceOptions,
  sourceUsage,
} from './source/source-options.ts';
import { uploadContext } from './source/upload-context.ts';

/** `sluice build`: builds an image and prints the name to pull. */
export const buildCommand: Command = {
  summary: 'Build an image from a Dockerfile or from Conda packages and print the name to pull',
  usage: sourceUsage,
  completes: 'directory',
  options: { ...sourceOptions, ...claimOptions, server: serverOption, ...imageOptions },
  variables: { ...serverVariables, ...tokenVariable },
  exits: followExits,

  async run(values, positionals) {
    const request = await buildRequestOf(values, positionals);
    warnOfPlainHttp(values, request.submission);
    return printImage(values, await askForBuild(values, request));
  },
};

/** Warns before secrets and keys leave this machine for a server without TLS. */
function warnOfPlainHttp(values: Values, { secrets, ssh }: Submission): void {
  const address = serverAddress(values);
  if ((!secrets && !ssh) || !URL.canParse(address)) return;
  const { protocol, hostname, host } = new URL(address);
  if (protocol === 'https:' || ownMachine.includes(hostname)) return;
  console.error(
    `Warning: secrets and SSH keys are sent to ${host} without encryption. Use an https address`,
  );
}

async function askForBuild(
  values: Values,
  { submission, directory }: BuildRequest,
): Promise<ImageResponse> {
  const send = async (buildContext: Submission['buildContext']) =>
    requestContainer(values, {
      ...submission,
      buildContext,
      dryRun: values['dry-run'],
      ...(await claimOf(values)),
      timestamp: new Date().toISOString(),
    });
  const { buildContext } = submission;
  try {
    if (buildContext || !directory) return await send(buildContext);
  } catch (error) {
    // The operator has set a lower limit for contexts inside a request.
    const isTooLarge = error instanceof RefusedError && error.status === 413;
    if (!isTooLarge || !directory) throw error;
  }
  return send(await uploadContext(values, directory));
}

/** `sluice mirror`: copies images as they are, and prints their new names. */
export const mirrorCommand: Command = {
  summary: 'Copy images as they are, with all platforms and signatures, and print their new names',
  usage: ['IMAGE... --to REPOSITORY', '--from-file FILE --to REPOSITORY'],
  options: {
    to: {
      type: 'string',
      value: 'REPOSITORY',
      description:
        'Registry or registry/path to copy to. The path and the tag of the image follow it',
    },
    'from-file': {
      type: 'string',
      value: 'FILE',
      completes: 'file',
      description: 'Read the names of images from a file, one a line; # begins a comment',
    },
    platform: {
      type: 'string',
      value: 'OS/ARCH',
      completes: supportedPlatforms,
      description: 'Copy the image of this platform only. Default: all platforms',
    },
    ...claimOptions,
    server: serverOption,
    ...imageOptions,
  },
  variables: { ...serverVariables, ...tokenVariable },
  exits: followExits,

  async run(values, args) {
    const to = text(values, 'to');
    if (to === undefined) throw new UsageError('Missing option: --to REPOSITORY');
    const images = [...args, ...(await imagesIn(text(values, 'from-file')))];
    if (images.length === 0) throw new UsageError('Missing argument: IMAGE');
    let worst = 0;
    for (const image of images) worst = Math.max(worst, await mirrorOne(values, image, to));
    return worst;
  },
};

async function mirrorOne(values: Values, image: string, to: string): Promise<number> {
  const response = await requestContainer(values, {
    containerImage: image,
    mirror: true,
    buildRepository: to,
    containerPlatform: text(values, 'platform'),
    dryRun: values['dry-run'],
    ...(await claimOf(values)),
    timestamp: new Date().toISOString(),
  });
  return printImage(values, response);
}

async function imagesIn(file: string | undefined): Promise<string[]> {
  if (file === undefined) return [];
  const lines = (await contentOf(file))
    .toString()
    .split('\n')
    .map(line => line.replace(/#.*/, '').trim());
  return lines.filter(line => line !== '');
}
