import { symlink, writeFile } from 'node:fs/promises';
import { type Daemon, startDaemon } from './daemon.ts';
import type { TempDir } from './temp-dir.ts';
import { requireBusybox, requireCommand } from './tools.ts';

/** A machine with its own network that leads to another one: both are network namespaces of this machine. */
export interface Machine extends AsyncDisposable {
  /** The program that runs on it. */
  readonly daemon: Daemon;
}

/** Addresses of the machine; a server of files listens at port 80 and 8080 of each. */
export const ownAddresses = ['127.0.0.1', '10.9.9.9', '9.9.9.8'] as const;
/** Addresses of the other one, which has the same server. */
export const otherAddresses = {
  internet: '9.9.9.9',
  neighbour: '10.9.9.1',
  metadata: '169.254.169.254',
  carrier: '100.64.0.1',
  office: '172.20.0.1',
} as const;

const script = `
set -e
folder=$1
busybox=$folder/busybox
shift
ip link set lo up
ip addr add 9.9.9.8/32 dev lo
unshare --net sleep infinity &
other=$!
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
ip link add eth0 type veth peer name eth0 netns $other
ip addr add 10.9.9.9/24 dev eth0
ip link set eth0 up
nsenter --target $other --net ip -batch - <<END
link set lo up
link set eth0 up
addr add ${otherAddresses.neighbour}/24 dev eth0
addr add ${otherAddresses.internet}/32 dev lo
addr add ${otherAddresses.metadata}/32 dev lo
addr add ${otherAddresses.carrier}/32 dev lo
addr add ${otherAddresses.office}/32 dev lo
END
ip route add default via 10.9.9.1
for port in 80 8080; do
  "$busybox" httpd -p $port -h "$folder"
  nsenter --target $other --net "$busybox" httpd -p $port -h "$folder"
done
exec "$@"
`;

/** Starts a program on such a machine; its child processes end with it. */
export async function startMachine(command: readonly string[], files: TempDir): Promise<Machine> {
  await writeFile(files.join('file'), 'a file\n');
  await symlink(requireBusybox('amd64'), files.join('busybox'));
  for (const name of ['unshare', 'nsenter', 'ip']) requireCommand(name);
  const daemon = startDaemon(
    'unshare',
    [
      ...['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'],
      ...['sh', '-c', script, 'sh', files.path, ...command],
    ],
    { stdin: 'pipe' },
  );
  return { daemon, [Symbol.asyncDispose]: daemon.stop };
}
