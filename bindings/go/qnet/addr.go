// SPDX-License-Identifier: MIT OR Apache-2.0

package qnet

import (
	"context"
	"net"
	"strconv"
	"strings"

	"quoit"
)

// netAddr is an address as package net has it.
func netAddr(network string, a quoit.Addr) net.Addr {
	if strings.HasPrefix(network, "unix") {
		name := string(a.Bytes[:a.Len])
		if name != "" && name[0] == 0 {
			name = "@" + name[1:]
		}
		return &net.UnixAddr{Name: name, Net: network}
	}
	ip, zone := ipOf(a)
	if strings.HasPrefix(network, "udp") {
		return &net.UDPAddr{IP: ip, Port: int(a.Port), Zone: zone}
	}
	return &net.TCPAddr{IP: ip, Port: int(a.Port), Zone: zone}
}

func ipOf(a quoit.Addr) (ip net.IP, zone string) {
	switch a.Family {
	case quoit.FamilyV4:
		return net.IPv4(a.Bytes[0], a.Bytes[1], a.Bytes[2], a.Bytes[3]), ""
	case quoit.FamilyV6:
		if a.Scope != 0 {
			zone = strconv.Itoa(int(a.Scope))
			if i, err := net.InterfaceByIndex(int(a.Scope)); err == nil {
				zone = i.Name
			}
		}
		return append(net.IP(nil), a.Bytes[:net.IPv6len]...), zone
	}
	return nil, ""
}

// streams says which addresses a network may have: 0 any, 4 or 6; -1 for Unix sockets.
var streams = map[string]int{"tcp": 0, "tcp4": 4, "tcp6": 6, "unix": -1}

// resolve gives the addresses of a name as quoit reads them, at least one. empty stands for an empty host.
func resolve(ctx context.Context, network, address, empty string, networks map[string]int) ([]string, error) {
	version, ok := networks[network]
	if !ok {
		return nil, net.UnknownNetworkError(network)
	}
	if version < 0 {
		return []string{"unix:" + address}, nil
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = empty
	}
	ips, err := lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var first, second []string // IPv4 comes first: nobody is kept waiting by an IPv6 that leads nowhere
	for _, ip := range ips {
		text := net.JoinHostPort(ip.IP.String(), strconv.Itoa(port))
		switch {
		case ip.IP.To4() == nil && version != 4:
			text = net.JoinHostPort(ip.IP.String()+scope(ip.Zone), strconv.Itoa(port))
			second = append(second, text)
		case ip.IP.To4() != nil && version != 6:
			first = append(first, text)
		}
	}
	if found := append(first, second...); len(found) > 0 {
		return found, nil
	}
	return nil, &net.AddrError{Err: "no suitable address found", Addr: host}
}

// lookup asks nobody for localhost: it is the loopback (RFC 6761 section 6.3), also where no hosts file says so.
func lookup(ctx context.Context, host string) ([]net.IPAddr, error) {
	if strings.EqualFold(host, "localhost") {
		return []net.IPAddr{{IP: net.IPv4(127, 0, 0, 1)}, {IP: net.IPv6loopback}}, nil
	}
	return net.DefaultResolver.LookupIPAddr(ctx, host)
}

// scope is a zone as quoit reads it, by number.
func scope(zone string) string {
	if zone == "" {
		return ""
	}
	if number := scopeOf(zone); number != 0 {
		zone = strconv.Itoa(int(number))
	}
	return "%" + zone
}

// scopeOf is the number of a zone, 0 if it has none.
func scopeOf(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	number, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(number)
}

// named is an address that has not become one: as the program wrote it, for an error to show.
type named struct{ network, address string }

func (n named) Network() string { return n.network }
func (n named) String() string  { return n.address }
