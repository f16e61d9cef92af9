// Package launcher says which rank of a run this process is, where a launcher has started one
// process for each: torchrun, Slurm, MPI, Kubernetes or Ray. Each tells its processes by
// environment variables. librl reads none; a host does, checks what it finds, and sets comm.rank
// and comm.rendezvous. docs/parallel.md lists the variables.
package launcher

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// Of two rows for one launcher the first that has a variable set counts.
var rows = []struct{ launcher, rank, ranks string }{
	{"torchrun", "RANK", "WORLD_SIZE"},
	{"slurm", "SLURM_PROCID", "SLURM_NTASKS"},
	{"mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"mpi", "PMI_RANK", "PMI_SIZE"},
	{"kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE"},
	{"ray", "RANK", "WORLD_SIZE"},
}

// Place is that of a process among the ranks of its run.
type Place struct {
	Rank, Ranks uint64
	Rendezvous  string // comm.rendezvous; "" for a single rank
}

var digits = regexp.MustCompile(`^[0-9]{1,9}$`)

func isSet(name string) bool {
	_, set := os.LookupEnv(name)
	return set
}

func textOf(name string) (string, error) {
	text := os.Getenv(name)
	if text == "" {
		return "", fmt.Errorf("%s is not set", name)
	}
	return text, nil
}

func numberOf(name string) (uint64, error) {
	text, err := textOf(name)
	if err != nil {
		return 0, err
	}
	if !digits.MatchString(text) {
		return 0, fmt.Errorf("%s is \"%.100s\", not a number", name, text)
	}
	return strconv.ParseUint(text, 10, 64)
}

// master is where the ranks meet if nobody says otherwise. MASTER_PORT itself is torchrun's.
func master() (string, error) {
	host, err := textOf("MASTER_ADDR")
	if err != nil {
		return "", err
	}
	port, err := numberOf("MASTER_PORT")
	if err == nil && (port < 1 || port > 65534) {
		err = fmt.Errorf("MASTER_PORT is %d, not 1 to 65534", port)
	}
	return fmt.Sprintf("tcp:%s:%d", host, port+1), err
}

// PlaceOf is the place that a launcher has given this process; meeting is where the ranks meet, ""
// for the port after MASTER_PORT of MASTER_ADDR.
func PlaceOf(launcher, meeting string) (place Place, err error) {
	found := -1
	for i, row := range rows {
		if row.launcher == launcher && (found < 0 || !isSet(rows[found].rank) &&
			!isSet(rows[found].ranks) && (isSet(row.rank) || isSet(row.ranks))) {
			found = i
		}
	}
	if found < 0 {
		return place, errors.New("it is none of torchrun, slurm, mpi, kubernetes and ray")
	}
	names := rows[found]
	if place.Rank, err = numberOf(names.rank); err != nil {
		return place, err
	}
	if place.Ranks, err = numberOf(names.ranks); err != nil {
		return place, err
	}
	if place.Rank >= place.Ranks {
		return place, fmt.Errorf("%s is %d, but %s is %d", names.rank, place.Rank, names.ranks,
			place.Ranks)
	}
	if place.Ranks > 1 && meeting == "" {
		meeting, err = master()
	}
	if place.Ranks > 1 {
		place.Rendezvous = meeting
	}
	return place, err
}
