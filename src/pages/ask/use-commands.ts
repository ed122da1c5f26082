import { usersFolder } from '../../oci/naming.ts';
import { type Html, html, shownText } from '../frame/html.ts';

/** An image that somebody wants to use. */
export interface UsedImage {
  /** The name to pull, such as `host/ct/token/image:tag`; `oras://...` for a Singularity image. */
  readonly name: string;
  /** True if the registry of the name speaks HTTP, without TLS. */
  readonly isPlainHttp: boolean;
  /** True for an image in a repository of a user on this server: only the user can pull it. */
  readonly isOwn?: boolean;
}

export interface UsedImageDeps {
  readonly publicUrl: URL;
  /** Returns the address of another registry. */
  readonly urlOf: (registry: string) => string;
}

/** Returns an image by the name to pull, from this server or from another registry. */
export function usedImage(name: string, { publicUrl, urlOf }: UsedImageDeps): UsedImage {
  const [host = '', folder] = withoutScheme(name).split('/');
  const isHere = host === publicUrl.host;
  const address = isHere ? publicUrl.protocol : urlOf(host);
  return {
    name,
    isPlainHttp: address.startsWith('http:'),
    isOwn: isHere && folder === usersFolder,
  };
}

/** Returns the last part of a name, without registry and repository. */
export function shortName(name: string): string {
  return withoutScheme(name).split('/').at(-1) ?? name;
}

/** A digest at the end of a name, by which its build tells it from others. */
const nameEnd = /--[0-9a-f]{32}$/;

/** Returns a name as code, with its digest less visible: people look for what is before it. */
export function namedCode(name: string): Html {
  const [end = ''] = nameEnd.exec(name) ?? [];
  const begin = name.slice(0, name.length - end.length);
  return html`<code>${shownText(begin, 300)}${end && html`<span class="minor">${end}</span>`}</code>`;
}

/** How a client uses an image. */
export interface UseCommand {
  /** Name of the client, as people write it. */
  readonly client: string;
  /** Text to copy: a command, or a part of a file. */
  readonly text: string;
  /** What else the client needs; undefined for nothing. */
  readonly note?: string;
}

const orasScheme = 'oras://';

/** Returns what to write for each client that can use the image. */
export function useCommands({ name, isPlainHttp, isOwn }: UsedImage): readonly UseCommand[] {
  const insecure = (option: string) => (isPlainHttp ? `${option} ` : '');
  if (name.startsWith(orasScheme)) {
    // Not apptainer registry login, which requires TLS.
    const login = isOwn
      ? 'export APPTAINER_DOCKER_USERNAME=token APPTAINER_DOCKER_PASSWORD="$SLUICE_TOKEN"\n'
      : '';
    const pull = `apptainer pull ${insecure('--no-https')}image.sif ${shellWord(name)}`;
    return [
      {
        client: 'Apptainer',
        text: `${login}${pull}\napptainer shell image.sif`,
        ...(isOwn ? { note: 'Only you can pull it, with your access token in SLUICE_TOKEN.' } : {}),
      },
      {
        client: 'Nextflow',
        text: `process.container = ${groovyText(name)}\napptainer.enabled = true${isPlainHttp ? '\napptainer.noHttps = true' : ''}`,
        note: isOwn
          ? 'In nextflow.config. Export the variables of Apptainer before the run.'
          : 'In nextflow.config.',
      },
    ];
  }
  const [host] = name.split('/');
  const login = isOwn
    ? [`Only you can pull it: docker login -u token ${host}, with an access token as the password.`]
    : [];
  const plainNote = (setting: string) => {
    const isRefused = isPlainHttp && !isLoopback(name);
    const tls = isRefused ? [`This server has no TLS: list its address ${setting}.`] : [];
    const notes = [...login, ...tls];
    return notes.length === 0 ? {} : { note: notes.join(' ') };
  };
  return [
    {
      client: 'Docker',
      text: `docker run --rm -it ${shellWord(name)}`,
      ...plainNote('under insecure-registries in the settings of Docker'),
    },
    {
      client: 'Podman',
      text: `podman run --rm -it ${insecure('--tls-verify=false')}${shellWord(name)}`,
    },
    {
      client: 'Apptainer',
      text: `apptainer shell ${insecure('--no-https')}${shellWord(`docker://${name}`)}`,
    },
    {
      client: 'Nextflow',
      text: `process.container = ${groovyText(name)}\ndocker.enabled = true`,
      note: 'In nextflow.config.',
    },
    {
      client: 'Kubernetes',
      text: `apiVersion: v1
kind: Pod
metadata:
  name: my-container
spec:
  restartPolicy: Never
  containers:
    - name: main
      image: ${JSON.stringify(name)}`,
      ...plainNote('in the registry settings of the nodes'),
    },
  ];
}

function withoutScheme(name: string): string {
  return name.startsWith(orasScheme) ? name.slice(orasScheme.length) : name;
}

/** Returns a text as one word for a POSIX shell. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Returns a text as a Groovy string in which nothing is replaced. */
function groovyText(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\n', '\\n')}'`;
}

/** Returns true for a name on this machine, which Docker pulls without TLS by itself. */
function isLoopback(name: string): boolean {
  return /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?\//.test(name);
}
