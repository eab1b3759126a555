import { afterEach, describe, expect, it, vi } from 'vitest';

import { RestApi } from '../../../src/api/rest';
import { EventSocket } from '../../../src/api/socket';
import { ClustersModel } from '../../../src/model/clusters';
import { clusterInfo, FakeSocket, fakeSettings, Seen } from '../fixtures';

describe('ClustersModel', () => {
  let socket: EventSocket;

  afterEach(() => socket.dispose());

  function make(answer: (seen: Seen) => unknown): { clusters: ClustersModel; seen: Seen[] } {
    const { settings, seen } = fakeSettings(answer);
    socket = new EventSocket(settings);
    const clusters = new ClustersModel(new RestApi(settings), socket);
    socket.connect();
    FakeSocket.last.open();
    return { clusters, seen };
  }

  it('shows the clusters from the socket, and templates that are not running', async () => {
    const { clusters } = make(() => [
      { name: 'digits', request: {} },
      { name: 'big', request: { kind: 'local' } }
    ]);
    await clusters.refresh();
    FakeSocket.last.receive({ type: 'clusters', clusters: [clusterInfo('digits')] });
    expect(clusters.isReady).toBe(true);
    expect(clusters.get('digits')?.state).toBe('running');
    expect(clusters.idleTemplates.map(template => template.name)).toEqual(['big']);
  });

  it('keeps the newest templates, in whatever order the answers arrive', async () => {
    const answers: ((answer: unknown) => void)[] = [];
    const { clusters } = make(() => new Promise(take => answers.push(take)));
    const asked = [clusters.refresh(), clusters.refresh()];
    await vi.waitFor(() => expect(answers).toHaveLength(2));
    answers[1]!([{ name: 'newer', request: {} }]);
    await asked[1];
    answers[0]!([{ name: 'older', request: {} }]);
    await asked[0];
    expect(clusters.templates.map(template => template.name)).toEqual(['newer']);
  });

  it('saves a cluster as a template with its original options and its current jobs', async () => {
    const { clusters, seen } = make(({ method }) => (method === 'GET' ? [] : clusterInfo('digits')));
    await clusters.start({ name: 'digits', kind: 'local', jobs: { worker: 2 }, options: { hosts: 2 } });
    await clusters.keepCluster(clusterInfo('digits', { jobs: { worker: 4 } }));
    expect(seen.find(one => one.method === 'PUT')).toEqual({
      method: 'PUT',
      path: '/base/jupyter-dtf/api/templates/digits',
      body: { name: 'digits', kind: 'local', jobs: { worker: 4 }, options: { hosts: 2 } }
    });
  });
});
